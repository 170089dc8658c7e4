package e2e

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestGoRedisPlaces(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "places", run: places},
		{name: "searches", run: geoSearches},
		{name: "searches by their old names", run: geoRadius},
	})
}

// sicily adds two towns.
func sicily(t *testing.T, c subject) {
	t.Helper()
	is(t, int64(2))(c.GeoAdd(ctx, "g", &redis.GeoLocation{Name: "Palermo", Longitude: 13.361389,
		Latitude: 38.115556},
		&redis.GeoLocation{Name: "Catania", Longitude: 15.087269, Latitude: 37.502669}).Result())
}

func places(t *testing.T, c subject) {
	sicily(t, c)
	is(t, 166.2742)(c.GeoDist(ctx, "g", "Palermo", "Catania", "km").Result())
	missing(t, c.GeoDist(ctx, "g", "Palermo", "none", "km"))
	is(t, []string{"sqc8b49rny0", ""})(c.GeoHash(ctx, "g", "Palermo", "none").Result())
	is(t, []*redis.GeoPos{{Longitude: 13.361389338970184, Latitude: 38.1155563954963}, nil})(
		c.GeoPos(ctx, "g", "Palermo", "none").Result())
}

func geoSearches(t *testing.T, c subject) {
	sicily(t, c)
	near := redis.GeoSearchQuery{Longitude: 15, Latitude: 37, Radius: 200, RadiusUnit: "km",
		Sort: "ASC"}
	is(t, []string{"Catania", "Palermo"})(c.GeoSearch(ctx, "g", &near).Result())
	is(t, []redis.GeoLocation{{Name: "Palermo", Dist: 0, GeoHash: 3479099956230698}})(
		c.GeoSearchLocation(ctx, "g", &redis.GeoSearchLocationQuery{
			GeoSearchQuery: redis.GeoSearchQuery{Member: "Palermo", BoxWidth: 10, BoxHeight: 10,
				BoxUnit: "m"}, WithDist: true, WithHash: true,
		}).Result())
	is(t, int64(2))(c.GeoSearchStore(ctx, "g", "found",
		&redis.GeoSearchStoreQuery{GeoSearchQuery: near, StoreDist: true}).Result())
	is(t, []string{"Catania", "Palermo"})(c.ZRange(ctx, "found", 0, -1).Result())
}

func geoRadius(t *testing.T, c subject) {
	sicily(t, c)
	is(t, []string{"Palermo", "Catania"})(c.Do(ctx, "GEORADIUS_RO", "g", 15, 37, 200, "km",
		"DESC").StringSlice())
	is(t, []string{"Catania", "Palermo"})(c.Do(ctx, "GEORADIUSBYMEMBER_RO", "g", "Palermo", 200,
		"km", "DESC").StringSlice())
	near := redis.GeoRadiusQuery{Radius: 200, Unit: "km", Sort: "DESC"}
	near.Store = "found"
	is(t, int64(2))(c.GeoRadiusStore(ctx, "g", 15, 37, &near).Result())
	is(t, int64(2))(c.GeoRadiusByMemberStore(ctx, "g", "Palermo", &near).Result())
	is(t, int64(2))(c.ZCard(ctx, "found").Result())
	is(t, int64(2))(c.Do(ctx, "GEORADIUS", "g", 15, 37, 200, "km", "STORE", "found").Int64())
	is(t, int64(2))(c.Do(ctx, "GEORADIUSBYMEMBER", "g", "Palermo", 200, "km", "STORE",
		"found").Int64())
}
