package torture

import (
	"bytes"
	"strings"

	"keyp/storage"
)

// changes has the log position of the last change of each key, from the store's events. A reply
// that shows a key must not be sent before that position is durable.
type changes struct {
	log  interface{ Durable() uint64 }
	keys map[name]uint64
	all  [databases]uint64 // when databases were emptied or exchanged last
}

// listen starts anew for a store that has just started.
func (c *changes) listen(s *storage.Store) {
	*c = changes{log: s.Log(), keys: map[name]uint64{}}
	s.Listen(func(e storage.Happened) {
		if e.Call != nil {
			e.Call(e.LSN)
			return
		}
		c.keys[name{e.DB, string(e.Key)}] = e.LSN
	})
	s.SetEvents(^(storage.EventNew | storage.EventMiss))
}

// saw records changes that have no events. The changes of a script are unknown.
func (c *changes) saw(o *op) {
	for _, command := range o.commands {
		switch name := string(command[0]); {
		case !o.wrote:
		case len(o.commands) > 1 && strings.HasPrefix(name, "FLUSH"):
			// Other commands of the transaction may have written.
		case name == "FLUSHDB":
			c.all[o.db] = o.end
		case name == "FLUSHALL":
			for db := range databases {
				c.all[db] = o.end
			}
		case name == "SWAPDB" && !bytes.Equal(command[1], command[2]):
			for _, db := range command[1:] {
				c.all[int(db[0]-'0')] = o.end
			}
		}
	}
}

// reads are commands that read one key and change nothing.
var reads = map[string]bool{
	"GET": true, "STRLEN": true, "HGET": true, "HPTTL": true, "HLEN": true, "LRANGE": true,
	"LINDEX": true, "SISMEMBER": true,
	"SCARD": true, "ZSCORE": true, "ZRANGE": true, "TYPE": true, "PTTL": true, "HGETALL": true,
	"SMEMBERS": true, "ZSCAN": true,
	"GETBIT": true, "BITCOUNT": true, "GEODIST": true, "XLEN": true, "XRANGE": true,
}

// shown returns the key that a command has shown, and the log position that its reply has to wait
// for at least. The position is 0 if it is durable already, or if the command is not in reads.
func (c *changes) shown(o *op) (key string, need uint64) {
	command := o.commands[0]
	if len(o.commands) > 1 || !reads[string(command[0])] {
		return "", 0
	}
	key = string(command[1])
	if need = max(c.keys[name{o.db, key}], c.all[o.db]); need <= c.log.Durable() {
		return "", 0
	}
	return key, need
}
