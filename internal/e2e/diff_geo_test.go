package e2e

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

var geoGenerators = []generator{
	{6, drawGeoAdd},
	{2, func(g *gen) []string { return append([]string{"GEOPOS", g.places()}, g.towns(3)...) }},
	{2, func(g *gen) []string { return append([]string{"GEOHASH", g.places()}, g.towns(3)...) }},
	{3, func(g *gen) []string {
		return append([]string{"GEODIST", g.places(), g.town(), g.town()}, g.maybeUnit()...)
	}},
	{8, drawGeoSearch},
	{4, drawGeoRadius},
}

// places draws a key that mostly holds places.
func (g *gen) places() string {
	if g.few || g.chance(8) {
		return g.key()
	}
	return g.from("places", "places", "places", "more", "z")
}

func (g *gen) town() string { return "town" + strconv.Itoa(g.IntN(40)) }

func (g *gen) towns(most int) []string {
	list := make([]string, 1+g.IntN(most))
	for i := range list {
		list[i] = g.town()
	}
	return list
}

// coordinates draws coordinates: any, or some near one of a few places.
func (g *gen) coordinates() []string {
	format := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	switch {
	case g.chance(3):
		return []string{g.from("180", "-180", "181", "x", "0", "1e1"),
			g.from("85.05112878", "-85.05112878", "85.06", "", "0", "nan")}
	case g.chance(40):
		return []string{format(g.Float64()*360 - 180), format(g.Float64()*170 - 85)}
	}
	centre := one(g, [2]float64{13.4, 52.5}, [2]float64{179.9, -17}, [2]float64{25, 84.5},
		[2]float64{-70, -66.2})
	return []string{format(min(max(centre[0]+g.NormFloat64(), -180), 180)),
		format(min(max(centre[1]+g.NormFloat64()/2, -85), 85))}
}

func (g *gen) length() string {
	if g.chance(6) {
		return g.from("-1", "x", "0", "inf", "1e9", "0.1")
	}
	return strconv.Itoa(1 + g.IntN(one(g, 10, 1000, 100_000, 10_000_000)))
}

func (g *gen) lengthUnit() string {
	if g.chance(3) {
		return g.from("yd", "", "M", "KM")
	}
	return g.from("m", "km", "ft", "mi")
}

func (g *gen) maybeUnit() []string {
	if g.chance(40) {
		return nil
	}
	return []string{g.lengthUnit()}
}

func drawGeoAdd(g *gen) []string {
	args := []string{"GEOADD", g.places()}
	if g.chance(15) {
		args = append(args, g.from("NX", "XX", "CH", "ch"))
	}
	for range 1 + g.IntN(6) {
		args = append(append(args, g.coordinates()...), g.town())
	}
	return args
}

// geoOptions draws the options after the area. With COUNT, Redis returns members at equal distances
// in any order, so COUNT is drawn only with ANY where members may have equal distances.
func (g *gen) geoOptions(with bool) (words []string) {
	var options [][]string
	if g.chance(50) {
		options = append(options, []string{g.from("ASC", "DESC", "asc")})
	}
	if g.chance(30) {
		options = append(options, []string{"COUNT", g.between(1, 9)})
		if g.chance(40) {
			options = append(options, []string{"ANY"})
		}
	} else if g.chance(3) {
		options = append(options, []string{g.from("ANY", "COUNT", "BAD")})
	}
	if with {
		for _, word := range []string{"WITHDIST", "WITHHASH", "WITHCOORD"} {
			if g.chance(30) {
				options = append(options, []string{word})
			}
		}
	}
	return g.shuffle(options)
}

func drawGeoSearch(g *gen) []string {
	args := []string{"GEOSEARCH", g.places()}
	stores := g.chance(30)
	if stores {
		args = []string{"GEOSEARCHSTORE", g.from("z", "more", "found"), g.places()}
	}
	if g.chance(30) {
		args = append(args, "FROMMEMBER", g.town())
	} else {
		args = append(append(args, "FROMLONLAT"), g.coordinates()...)
	}
	if g.chance(40) {
		args = append(args, "BYBOX", g.length(), g.length(), g.lengthUnit())
	} else {
		args = append(args, "BYRADIUS", g.length(), g.lengthUnit())
	}
	args = append(args, g.geoOptions(!stores || g.chance(3))...)
	if stores && g.chance(30) {
		args = append(args, "STOREDIST")
	}
	return args
}

func drawGeoRadius(g *gen) []string {
	var args []string
	if g.chance(40) {
		args = []string{g.from("GEORADIUSBYMEMBER", "GEORADIUSBYMEMBER_RO"), g.places(), g.town()}
	} else {
		args = append([]string{g.from("GEORADIUS", "GEORADIUS_RO"), g.places()}, g.coordinates()...)
	}
	args = append(args, g.length(), g.lengthUnit())
	if g.chance(25) {
		return append(append(args, g.geoOptions(false)...), g.from("STORE", "STOREDIST"),
			g.from("z", "more", "found"))
	}
	return append(args, g.geoOptions(true)...)
}

// TestDiffDistances compares distances as doubles, which GEODIST rounds. Some places are at
// opposite ends of the earth, where the last bit of a sine becomes dozens of units. A few of a
// thousand results may differ, as results of mathematical functions do (docs/reference/redis.md).
func TestDiffDistances(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	rng := rand.New(rand.NewPCG(1, 2))
	ask := func(args ...string) (keyp, redis reply) {
		return s.mustDo(t, s.keyp, args...), s.mustDo(t, s.redis, args...)
	}
	format := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	compared, different := 0, 0
	for range 20 {
		lon, lat := rng.Float64()*180, rng.Float64()*150-75
		add := []string{"GEOADD", "places"}
		for i := range 100 {
			place := []float64{rng.Float64()*360 - 180, rng.Float64()*170 - 85}
			if i%2 == 0 { // the other end
				place = []float64{lon - 180 + rng.Float64()*2, -lat + rng.Float64()*2}
			}
			add = append(add, format(place[0]), format(place[1]), "m"+strconv.Itoa(i))
		}
		ask(add...)
		ask("GEOSEARCHSTORE", "found", "places", "FROMLONLAT", format(lon), format(lat), "BYRADIUS",
			"30000", "km", "STOREDIST")
		got, want := ask("ZRANGE", "found", "0", "-1", "WITHSCORES")
		if len(got.items) != 200 || len(want.items) != 200 {
			t.Fatalf("%d and %d items", len(got.items), len(want.items))
		}
		scores := map[string]float64{}
		for i := 0; i < 200; i += 2 {
			scores[want.items[i].text], _ = strconv.ParseFloat(want.items[i+1].text, 64)
		}
		for i := 0; i < 200; i += 2 {
			score, err := strconv.ParseFloat(got.items[i+1].text, 64)
			compared++
			if err != nil || score != scores[got.items[i].text] {
				different++
			}
		}
	}
	t.Logf("%d of %d distances differ", different, compared)
	if different > compared/100 {
		t.Error("more than one of a hundred")
	}
}
