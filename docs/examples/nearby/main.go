// Nearby finds the bikes that are closest to a place, and reserves one of them. The key bikes
// contains the places of all free bikes. If several users want the same bike, one of them gets it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/redis/go-redis/v9"
)

const bikes = "bikes"

// Fleet stores the places of the free bikes.
type Fleet struct{ Redis *redis.Client }

// Park puts a bike somewhere, or moves it.
func (f Fleet) Park(ctx context.Context, bike string, longitude, latitude float64) error {
	return f.Redis.GeoAdd(ctx, bikes, &redis.GeoLocation{Name: bike, Longitude: longitude,
		Latitude: latitude}).Err()
}

// Near returns at most n bikes within meters of a place, the closest first, with their distances.
func (f Fleet) Near(ctx context.Context, longitude, latitude, meters float64,
	n int) ([]redis.GeoLocation, error) {
	return f.Redis.GeoSearchLocation(ctx, bikes, &redis.GeoSearchLocationQuery{
		GeoSearchQuery: redis.GeoSearchQuery{
			Longitude: longitude, Latitude: latitude, Radius: meters, RadiusUnit: "m",
			Sort: "ASC", Count: n,
		},
		WithDist: true,
	}).Result()
}

// Reserve takes the closest bike, so Near no longer finds it. It returns "" if there is no bike.
func (f Fleet) Reserve(ctx context.Context, longitude, latitude, meters float64) (string, error) {
	for {
		near, err := f.Near(ctx, longitude, latitude, meters, 5)
		if err != nil || len(near) == 0 {
			return "", err
		}
		for _, bike := range near {
			// Places are a sorted set. The user that removes a member has the bike;
			// others try the next.
			if n, err := f.Redis.ZRem(ctx, bikes, bike.Name).Result(); err != nil || n == 1 {
				return bike.Name, err
			}
		}
	}
}

func run(ctx context.Context, rdb *redis.Client, out io.Writer) error {
	fleet := Fleet{rdb}
	for _, b := range []struct {
		name                string
		longitude, latitude float64
	}{{"red", 13.4050, 52.5200}, {"blue", 13.4094, 52.5208}, {"far", 13.3777, 52.5163}} {
		if err := fleet.Park(ctx, b.name, b.longitude, b.latitude); err != nil {
			return err
		}
	}
	near, err := fleet.Near(ctx, 13.4060, 52.5201, 500, 10)
	if err != nil {
		return err
	}
	for _, b := range near {
		fmt.Fprintf(out, "%s: %.0f m\n", b.Name, b.Dist)
	}
	for range 3 {
		bike, err := fleet.Reserve(ctx, 13.4060, 52.5201, 500)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "reserved: %q\n", bike)
	}
	return nil
}

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "the server's address")
	flag.Parse()
	rdb := redis.NewClient(&redis.Options{Addr: *addr})
	if err := run(context.Background(), rdb, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
