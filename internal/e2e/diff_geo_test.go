package e2e

import "strconv"

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

// places draws a key that is mostly one of places.
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

// coordinates draws a place: anywhere, or near one of a few.
func (g *gen) coordinates() []string {
	format := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	switch {
	case g.chance(3):
		return []string{g.from("180", "-180", "181", "x", "0", "1e1"), g.from("85.05112878", "-85.05112878", "85.06", "", "0", "nan")}
	case g.chance(40):
		return []string{format(g.Float64()*360 - 180), format(g.Float64()*170 - 85)}
	}
	centre := one(g, [2]float64{13.4, 52.5}, [2]float64{179.9, -17}, [2]float64{25, 84.5}, [2]float64{-70, -66.2})
	return []string{format(min(max(centre[0]+g.NormFloat64(), -180), 180)), format(min(max(centre[1]+g.NormFloat64()/2, -85), 85))}
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

// geoOptions draws what follows the area. Members at the same distance come in any order in Redis
// when there is a COUNT, so that is drawn with ANY alone where members may be equal.
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
		return append(append(args, g.geoOptions(false)...), g.from("STORE", "STOREDIST"), g.from("z", "more", "found"))
	}
	return append(args, g.geoOptions(true)...)
}
