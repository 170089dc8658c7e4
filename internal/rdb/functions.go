package rdb

// kindLibrary precedes a library of functions in a payload of FUNCTION DUMP and in a file.
// kindOldLibrary is the same in prereleases of Redis 7.0.
const (
	kindLibrary    = 245
	kindOldLibrary = 246
)

// EncodeLibraries returns the payload of FUNCTION DUMP for the sources of libraries.
func EncodeLibraries(sources []string) []byte {
	w := &writer{}
	for _, source := range sources {
		w.kind(kindLibrary)
		w.string([]byte(source))
	}
	return seal(w.b, version7_0)
}

// DecodeLibraries returns the sources in a payload of FUNCTION DUMP, or ErrPayload for a wrong
// version or checksum. problem is any other fault, in the words of FUNCTION RESTORE.
func DecodeLibraries(payload []byte) (sources []string, problem string, err error) {
	body, err := open(payload)
	if err != nil {
		return nil, "", err
	}
	c := cursor{rest: body}
	for len(c.rest) > 0 {
		switch c.byte() {
		case kindLibrary:
		case kindOldLibrary:
			return nil, "Pre-GA function format not supported", nil
		default:
			return nil, "given type is not a function", nil
		}
		c.room = c.room[:0]
		source := c.string()
		if c.bad {
			return nil, "failed loading the given functions payload", nil
		}
		sources = append(sources, string(source))
	}
	return sources, "", nil
}
