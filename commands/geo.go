package commands

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"keyp/storage/object"
)

// geoCommands are the commands about places. A place is a member of a sorted set (geo_cell.go).
var geoCommands = slices.Concat([]Spec{
	{
		Name: "GEOADD", Group: Geo, Since: "3.2.0",
		Summary:    "Gives members of a sorted set their places, and adds those that are new.",
		Complexity: "O(log N) for each member, N being the size of the sorted set.",
		History:    [][2]string{{"6.2.0", "Added the `CH`, `NX` and `XX` options."}},
		Arity:      -5, Flags: Write | DenyOOM,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{
			keyArg("key"),
			oneOf("condition", word("NX"), word("XX")).opt().since("6.2.0"),
			Arg{Name: "change", Type: ArgToken, Token: "CH"}.opt().since("6.2.0"),
			block("data", doubleArg("longitude"), doubleArg("latitude"),
				stringArg("member")).many(),
		},
		Run: runGeoAdd,
	},
	{
		Name: "GEODIST", Group: Geo, Since: "3.2.0",
		Summary:    "Replies the distance between two members, as on a sphere.",
		Complexity: "O(1)",
		Arity:      -4, Flags: ReadOnly,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key"), stringArg("member1"), stringArg("member2"), geoUnit.opt()},
		Run:  runGeoDist,
	},
	{
		Name: "GEOHASH", Group: Geo, Since: "3.2.0",
		Summary:    "Replies the places of members as geohashes of eleven letters.",
		Complexity: "O(1) for each member.",
		Arity:      -2, Flags: ReadOnly,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key"), stringArg("member").many()},
		Run: func(c *Ctx) error {
			return eachPlace(c, c.Out.Null, func(p point) { c.Out.BulkString(geohash(p)) })
		},
	},
	{
		Name: "GEOPOS", Group: Geo, Since: "3.2.0",
		Summary:    "Replies the longitudes and latitudes of members.",
		Complexity: "O(1) for each member.",
		Arity:      -2, Flags: ReadOnly,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key"), stringArg("member").many()},
		Run:  func(c *Ctx) error { return eachPlace(c, c.Out.NullArray, c.place) },
	},
}, geoSearchCommands)

var geoUnit = oneOf("unit", word("M"), word("KM"), word("FT"), word("MI"))

// The errors of places.
const (
	errGeoUnit   Error = "ERR unsupported unit provided. please use M, KM, FT, MI"
	errGeoMember Error = "ERR could not decode requested zset member"
)

// place reads a longitude and a latitude. It fails if they are out of range.
func (a *Cursor) place() point {
	p := point{a.Float(), a.Float()}
	if a.err == nil && !(p.lon >= -maxLongitude && p.lon <= maxLongitude && p.lat >= -maxLatitude &&
		p.lat <= maxLatitude) {
		pair := fmt.Sprintf("%f,%f", p.lon, p.lat)
		a.err = Error("ERR invalid longitude,latitude pair " + strings.NewReplacer("+Inf", "inf",
			"-Inf", "-inf").Replace(pair))
	}
	return p
}

// unit reads a unit, and returns its length in metres.
func (a *Cursor) unit() float64 {
	switch {
	case a.Word("M"):
		return 1
	case a.Word("KM"):
		return 1000
	case a.Word("FT"):
		return 0.3048
	case a.Word("MI"):
		return 1609.34
	}
	a.Fail(errGeoUnit)
	return 1
}

// place replies with a place.
func (c *Ctx) place(p point) {
	c.Out.Array(2)
	c.Out.Double(p.lon)
	c.Out.Double(p.lat)
}

// distance replies with a distance. metres is the distance, and unit the length of the unit, both
// in metres.
func (c *Ctx) distance(metres, unit float64) {
	var room [32]byte
	c.Out.Bulk(strconv.AppendFloat(room[:0], metres/unit, 'f', 4, 64))
}

// placeOfMember returns the place of a member of a sorted set. z may be nil.
func placeOfMember(z *object.ZSet, member []byte) (p point, ok bool) {
	score, _, ok := z.Score(member)
	if !ok {
		return p, false
	}
	return placeOf(score), true
}

func runGeoAdd(c *Ctx) error {
	var o zaddOptions
	a := c.Cursor(2)
	for {
		if a.Word("NX") {
			o.nx = true
		} else if a.Word("XX") {
			o.xx = true
		} else if a.Word("CH") {
			o.ch = true
		} else {
			break
		}
	}
	if a.Len() == 0 || a.Len()%3 != 0 || o.nx && o.xx {
		return ErrSyntax
	}
	var members [][]byte
	var scores []float64
	for a.More() {
		p := a.place()
		members, scores = append(members, a.Bytes()), append(scores, geoScore(p))
	}
	if err := a.Err(); err != nil {
		return err
	}
	return o.putAll(c, members, scores)
}

func runGeoDist(c *Ctx) error {
	unit := 1.0
	if len(c.Args) > 4 {
		a := c.Cursor(4)
		if unit = a.unit(); a.Len() > 1 || a.Err() == nil && a.More() {
			return ErrSyntax
		}
		if err := a.Err(); err != nil {
			return err
		}
	}
	z, err := c.readZSet(c.Keys[0])
	if err != nil {
		return err
	}
	from, ok1 := placeOfMember(z, c.Arg(2))
	to, ok2 := placeOfMember(z, c.Arg(3))
	if !ok1 || !ok2 {
		c.Out.Null()
		return nil
	}
	c.distance(distance(from, to), unit)
	return nil
}

// eachPlace replies with an array with an element for each member that the command names. It calls
// reply with the member's place, or none if there is no such member.
func eachPlace(c *Ctx, none func(), reply func(point)) error {
	z, err := c.readZSet(c.Keys[0])
	if err != nil {
		return err
	}
	c.Out.Array(len(c.Args) - 2)
	for _, member := range c.Args[2:] {
		if p, ok := placeOfMember(z, member); ok {
			reply(p)
		} else {
			none()
		}
	}
	return nil
}

// geohash returns the standard geohash of a place, where latitudes go up to the poles. Ten letters
// have five bits each of the 52; the two lowest bits are dropped. The last letter is always 0.
func geohash(p point) string {
	const letters = "0123456789bcdefghjkmnpqrstuvwxyz"
	bits := cellOf(p, 90, geoSteps).bits()
	text := [11]byte{10: '0'}
	for i := range 10 {
		text[i] = letters[bits>>(47-5*i)&31]
	}
	return string(text[:])
}
