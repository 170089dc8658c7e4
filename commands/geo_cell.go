package commands

import (
	"math"

	"keyp/scripting/cmath"
)

// A place is a member of a sorted set whose score has 52 bits. These are the bits of the longitude
// and of the latitude, 26 each, in turn. The higher bit of each pair belongs to the longitude. A
// cell is the area of all places whose scores begin with the same bits. So a cell is a range of
// scores, and the places in cells around a place are found without reading any others. Calculations
// are in Redis's order, so that results are the same to the last digit.

const (
	geoSteps = 26 // bits of each coordinate
	// maxLatitude is the largest latitude in the Web Mercator projection.
	maxLatitude  = 85.05112878
	maxLongitude = 180
	earthRadius  = 6372797.560856         // in metres
	geoWidest    = 20037726.37            // in metres: half of the equator, about
	degree       = float64(math.Pi) / 180 // in radians: the quotient of doubles
)

// point is a place: a longitude and a latitude, in degrees.
type point struct{ lon, lat float64 }

// cell is a part of the earth's surface. With n steps, the surface is divided into 2^n by 2^n
// cells.
type cell struct {
	lon, lat uint32
	steps    uint
}

// cellOf returns the cell that contains the place. Latitudes are in the range from -top to top.
func cellOf(p point, top float64, steps uint) cell {
	lon := float64((p.lon + maxLongitude) / (2 * maxLongitude))
	lat := float64((p.lat + top) / (2 * top))
	return cell{uint32(lon * float64(uint64(1)<<steps)), uint32(lat * float64(uint64(1)<<steps)),
		steps}
}

// bits returns the interleaved bits of the two coordinates.
func (c cell) bits() uint64 { return spread(c.lat) | spread(c.lon)<<1 }

// spread moves bit i of n to bit 2*i of the result; the bits between are 0.
func spread(n uint32) uint64 {
	x := uint64(n)
	x = (x | x<<16) & 0x0000ffff0000ffff
	x = (x | x<<8) & 0x00ff00ff00ff00ff
	x = (x | x<<4) & 0x0f0f0f0f0f0f0f0f
	x = (x | x<<2) & 0x3333333333333333
	return (x | x<<1) & 0x5555555555555555
}

// gather reverses spread: it moves bit 2*i of x to bit i. It ignores the odd bits.
func gather(x uint64) uint32 {
	x &= 0x5555555555555555
	x = (x | x>>1) & 0x3333333333333333
	x = (x | x>>2) & 0x0f0f0f0f0f0f0f0f
	x = (x | x>>4) & 0x00ff00ff00ff00ff
	x = (x | x>>8) & 0x0000ffff0000ffff
	return uint32(x | x>>16)
}

// geoScore returns the score of a place in its sorted set.
func geoScore(p point) float64 { return float64(cellOf(p, maxLatitude, geoSteps).bits()) }

// placeOf returns the place for a score: the middle of its cell. It also returns a place for a
// score that GEOADD never stores.
func placeOf(score float64) point {
	var bits uint64
	switch {
	case score < 0:
		bits = uint64(int64(score))
	case score < 1<<63:
		bits = uint64(score)
	default:
		bits = uint64(int64(score-1<<63)) ^ 1<<63
	}
	a := cell{gather(bits >> 1), gather(bits), geoSteps}.area()
	return point{
		min(max((a.from.lon+a.to.lon)/2, -maxLongitude), maxLongitude),
		min(max((a.from.lat+a.to.lat)/2, -maxLatitude), maxLatitude),
	}
}

// area is the rectangle between two corners.
type area struct{ from, to point }

func (c cell) area() area {
	n := float64(uint64(1) << c.steps)
	at := func(i uint32, most float64) (from, to float64) {
		return -most + float64(float64(i)/n*(2*most)), -most + float64((float64(i)+1)/n*(2*most))
	}
	var a area
	a.from.lon, a.to.lon = at(c.lon, maxLongitude)
	a.from.lat, a.to.lat = at(c.lat, maxLatitude)
	return a
}

// scores returns the range of the scores of places in the cell. It includes from, but not to.
func (c cell) scores() (from, to float64) {
	shift := 2 * (geoSteps - c.steps)
	bits := c.bits()
	return float64(bits << shift), float64((bits + 1) << shift)
}

// neighbour returns the cell that is east cells to the east and north cells to the north. Both
// directions wrap around: after the last cell comes the first one.
func (c cell) neighbour(east, north int) cell {
	mask := uint32(1)<<c.steps - 1
	if east != 0 {
		c.lon = (c.lon + uint32(east)) & mask
	}
	if north != 0 {
		c.lat = (c.lat + uint32(north)) & mask
	}
	return c
}

// distance returns the distance of two places in metres, by the haversine formula.
func distance(a, b point) float64 {
	v := cmath.Sin((float64(b.lon*degree) - float64(a.lon*degree)) / 2)
	if v == 0 {
		return latDistance(a.lat, b.lat)
	}
	lat1, lat2 := float64(a.lat*degree), float64(b.lat*degree)
	u := cmath.Sin((lat2 - lat1) / 2)
	x := float64(u*u) + float64(cmath.Cos(lat1)*cmath.Cos(lat2)*v*v)
	return 2.0 * earthRadius * cmath.Asin(math.Sqrt(x))
}

// latDistance returns the distance of two latitudes in metres.
func latDistance(a, b float64) float64 {
	return earthRadius * math.Abs(float64(b*degree)-float64(a*degree))
}

// geoShape is the area of a search around a place. Lengths are in metres.
type geoShape struct {
	at            point
	box           bool
	radius        float64
	width, height float64
}

// distance returns the distance from the middle of the shape to p. ok is false if p is outside the
// shape.
func (s *geoShape) distance(p point) (metres float64, ok bool) {
	if !s.box {
		metres = distance(s.at, p)
		return metres, metres <= s.radius
	}
	if latDistance(p.lat, s.at.lat) > s.height/2 ||
		distance(p, point{s.at.lon, p.lat}) > s.width/2 {
		return 0, false
	}
	return distance(s.at, p), true
}

// bounds returns a rectangle around the shape.
func (s *geoShape) bounds() area {
	east, north := s.radius, s.radius
	if s.box {
		east, north = s.width/2, s.height/2
	}
	lat := north / earthRadius / degree
	widest := s.at.lat + lat // a degree of longitude is the shorter the nearer to a pole
	if s.at.lat < 0 {
		widest = s.at.lat - lat
	}
	lon := east / earthRadius / math.Cos(widest*degree) / degree
	return area{point{s.at.lon - lon, s.at.lat - lat}, point{s.at.lon + lon, s.at.lat + lat}}
}

// steps estimates how many steps cells need so that nine of them cover the shape.
func (s *geoShape) steps() uint {
	reach := s.radius
	if s.box {
		reach = math.Sqrt(float64(s.width/2*(s.width/2)) + float64(s.height/2*(s.height/2)))
	}
	if reach == 0 {
		return geoSteps
	}
	steps := -1
	for ; reach < geoWidest; reach *= 2 {
		steps++
	}
	switch lat := math.Abs(s.at.lat); {
	case lat > 80:
		steps -= 2
	case lat > 66:
		steps--
	}
	return uint(min(max(steps, 1), geoSteps))
}

// around lists the offsets of the cells to search, the middle cell first. Results come in this
// order.
var around = [9]struct{ east, north int }{{0, 0}, {0, 1}, {0, -1}, {1, 0}, {-1, 0}, {1, 1}, {-1, 1},
	{1, -1}, {-1, -1}}

// cells returns the cells that together cover the shape.
func (s *geoShape) cells() (list []cell) {
	bounds, steps := s.bounds(), s.steps()
	middle := cellOf(s.at, maxLatitude, steps)
	if steps > 1 && (middle.neighbour(0, 1).area().to.lat < bounds.to.lat ||
		middle.neighbour(0, -1).area().from.lat > bounds.from.lat ||
		middle.neighbour(1, 0).area().to.lon < bounds.to.lon ||
		middle.neighbour(-1, 0).area().from.lon > bounds.from.lon) {
		steps-- // the shape is near the edge of the middle one
		middle = cellOf(s.at, maxLatitude, steps)
	}
	a := middle.area()
	for i, by := range around {
		useless := by.north < 0 && a.from.lat < bounds.from.lat ||
			by.north > 0 && a.to.lat > bounds.to.lat ||
			by.east < 0 && a.from.lon < bounds.from.lon || by.east > 0 && a.to.lon > bounds.to.lon
		c := middle.neighbour(by.east, by.north)
		// Two neighbours of a large cell may be the same cell.
		if useless && steps >= 2 || i > 1 && len(list) > 1 && c == list[len(list)-1] {
			continue
		}
		list = append(list, c)
	}
	return list
}
