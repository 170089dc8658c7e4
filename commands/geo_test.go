package commands

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestGeo(t *testing.T) {
	table(t, `
		GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania -> 2
		events -> zadd:Sicily
		TYPE Sicily -> +zset
		GEODIST Sicily Palermo Catania -> "166274.1516"
		GEODIST Sicily Palermo Catania KM -> "166.2742"
		GEODIST Sicily Palermo Catania mi -> "103.3182"
		GEODIST Sicily Palermo Palermo -> "0.0000"
		GEODIST Sicily Palermo none -> nil
		GEODIST none Palermo Catania -> nil
		GEOHASH Sicily Palermo Catania none -> ["sqc8b49rny0", "sqdtr74hyu0", nil]
		GEOPOS Sicily Palermo none -> [["13.361389338970184", "38.1155563954963"], nilarray]
		GEOPOS none Palermo -> [nilarray]
		GEOADD Sicily 13.583333 37.316667 Agrigento -> 1
		GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 200 km ASC -> ["Catania", "Agrigento", "Palermo"]
		GEOSEARCH Sicily FROMLONLAT 15 37 BYBOX 400 400 km DESC COUNT 2 -> ["Palermo", "Agrigento"]
		GEOSEARCH Sicily FROMMEMBER Palermo BYRADIUS 100 km WITHDIST WITHHASH -> [["Agrigento", "90.9778", 3479030013248308], ["Palermo", "0.0000", 3479099956230698]]
		GEORADIUS Sicily 15 37 200 km WITHCOORD COUNT 1 -> [["Catania", ["15.087267458438873", "37.50266842333162"]]]
		GEORADIUSBYMEMBER Sicily Agrigento 100 km ASC -> ["Agrigento", "Palermo"]
		GEORADIUS_RO Sicily 15 37 1 m -> []
		GEORADIUS none 15 37 1 m -> []
		GEORADIUSBYMEMBER_RO none x bad units -> []
		GEOSEARCHSTORE near Sicily FROMLONLAT 15 37 BYRADIUS 200 km COUNT 2 -> 2
		events -> zadd:Sicily geosearchstore:near
		ZRANGE near 0 -1 -> ["Agrigento", "Catania"]
		GEOSEARCHSTORE near Sicily FROMLONLAT 15 37 BYRADIUS 200 km STOREDIST COUNT 1 -> 1
		ZRANGE near 0 -1 WITHSCORES -> ["Catania", "56.4412578701582"]
		GEORADIUS Sicily 15 37 200 km STORE near -> 3
		GEORADIUSBYMEMBER Sicily Palermo 1 m STORE first STOREDIST near -> 1
		ZRANGE near 0 -1 WITHSCORES -> ["Palermo", "0"]
		EXISTS first -> 0
		events -> geosearchstore:near georadiusstore:near georadiusstore:near
		EXPIRE near 10 -> 1
		GEORADIUS Sicily 15 37 200 km STORE near -> 3
		TTL near -> -1
		reopen
		ZCARD near -> 3
		GEOSEARCHSTORE near none FROMLONLAT 15 37 BYRADIUS 200 km -> 0
		EXISTS near -> 0
		GEOADD Sicily NX 1 1 Palermo 2 2 Enna -> 1
		GEOADD Sicily XX CH 1 1 Palermo 2 2 Messina -> 1
		GEOPOS Sicily Messina -> [nilarray]
		EXPIREMEMBER Sicily Enna 10 -> 1
		advance 10s
		GEOPOS Sicily Enna -> [nilarray]
		proto 3
		GEOPOS Sicily Catania -> [[,15.087267458438873, ,37.50266842333162]]
		proto 2

		GEOADD Sicily 181 1 x -> -ERR invalid longitude,latitude pair 181.000000,1.000000
		GEOADD Sicily 1 85.1 x -> -ERR invalid longitude,latitude pair 1.000000,85.100000
		GEOADD Sicily inf -inf x -> -ERR invalid longitude,latitude pair inf,-inf
		GEOADD Sicily 1 x x -> -ERR value is not a valid float
		GEOADD Sicily 1 1 -> -ERR wrong number of arguments for 'geoadd' command
		GEOADD Sicily NX XX 1 1 x -> -ERR syntax error
		GEOADD Sicily 1 1 x 1 -> -ERR syntax error
		GEODIST Sicily Palermo Catania yd -> -ERR unsupported unit provided. please use M, KM, FT, MI
		GEODIST Sicily Palermo Catania m x -> -ERR syntax error
		GEOSEARCH Sicily FROMMEMBER none BYRADIUS 1 m -> -ERR could not decode requested zset member
		GEOSEARCH Sicily FROMMEMBER Palermo FROMLONLAT 1 1 BYRADIUS 1 m -> -ERR syntax error
		GEOSEARCH Sicily BYRADIUS 1 m ASC ASC -> -ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for GEOSEARCH
		geosearch Sicily FROMLONLAT 1 1 ASC ASC -> -ERR exactly one of BYRADIUS and BYBOX can be specified for geosearch
		GEOSEARCH Sicily FROMLONLAT 1 1 BYRADIUS 1 m BYBOX 1 1 m -> -ERR syntax error
		GEOSEARCH Sicily FROMLONLAT 1 1 BYRADIUS -1 m -> -ERR radius cannot be negative
		GEOSEARCH Sicily FROMLONLAT 1 1 BYRADIUS x m -> -ERR need numeric radius
		GEOSEARCH Sicily FROMLONLAT 1 1 BYBOX x 1 m -> -ERR need numeric width
		GEOSEARCH Sicily FROMLONLAT 1 1 BYBOX 1 x m -> -ERR need numeric height
		GEOSEARCH Sicily FROMLONLAT 1 1 BYBOX 1 -1 m -> -ERR height or width cannot be negative
		GEOSEARCH Sicily FROMLONLAT 1 1 BYRADIUS 1 m COUNT 0 -> -ERR COUNT must be > 0
		GEOSEARCH Sicily FROMLONLAT 1 1 BYRADIUS 1 m ANY -> -ERR the ANY argument requires COUNT argument
		GEOSEARCH Sicily FROMLONLAT 1 1 BYRADIUS 1 m STORE x -> -ERR syntax error
		GEORADIUS Sicily 1 1 1 m STORE x WITHDIST -> -ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options
		GEOSEARCHSTORE x Sicily FROMLONLAT 1 1 BYRADIUS 1 m WITHHASH -> -ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options
		GEORADIUS_RO Sicily 1 1 1 m STORE x -> -ERR syntax error
		SET string v -> +OK
		GEOADD string 1 1 x -> -WRONGTYPE Operation against a key holding the wrong kind of value
		GEOPOS string x -> -WRONGTYPE Operation against a key holding the wrong kind of value
		GEOSEARCH string FROMLONLAT 1 1 BYRADIUS 1 m -> -WRONGTYPE Operation against a key holding the wrong kind of value
		COMMAND GETKEYS GEORADIUS a 1 1 1 m STORE b STOREDIST c -> ["a", "c"]
	`)
}

// TestGeoSearchFindsAll: GEOSEARCH finds the same members as a comparison with every member, for
// areas of any place and size. It does so on the event loop's goroutine and on another one.
func TestGeoSearchFindsAll(t *testing.T) {
	h := newHarness(t)
	rng := rand.New(rand.NewPCG(5, 6))
	var places []point
	for i := range 12_000 {
		p := point{rng.Float64()*360 - 180, rng.Float64()*170 - 85}
		if i%2 == 0 { // many are near each other, near the pole and the date line
			p = point{math.Mod(180+rng.NormFloat64()+180, 360) - 180,
				84 - math.Abs(rng.NormFloat64())}
		}
		h.do("GEOADD", "k", fmt.Sprint(p.lon), fmt.Sprint(p.lat), fmt.Sprint("m", i))
		places = append(places, placeOf(geoScore(p)))
	}
	for n := range 60 {
		at := places[rng.IntN(len(places))]
		s := geoShape{at: at, radius: math.Exp(rng.Float64()*12 + 4), box: n%2 == 0}
		s.width, s.height = s.radius, math.Exp(rng.Float64()*12+4)
		args := []string{"GEOSEARCHSTORE", "found", "k", "FROMLONLAT", fmt.Sprint(at.lon),
			fmt.Sprint(at.lat)}
		if s.box {
			args = append(args, "BYBOX", fmt.Sprint(s.width), fmt.Sprint(s.height), "m")
		} else {
			args = append(args, "BYRADIUS", fmt.Sprint(s.radius), "m")
		}
		bounds, want := s.bounds(), 0
		for _, p := range places {
			if _, ok := s.distance(p); ok && math.Abs(p.lon-at.lon) < 180 {
				want++
			}
		}
		crosses := bounds.from.lon < -maxLongitude || bounds.to.lon > maxLongitude ||
			bounds.to.lat > maxLatitude || bounds.from.lat < -maxLatitude
		got := h.do(args...)
		if !crosses && got != fmt.Sprint(want) {
			t.Errorf("%s: %s, want %d", strings.Join(args, " "), got, want)
		}
	}
}
