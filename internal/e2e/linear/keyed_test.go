package linear

import (
	"fmt"
	"strconv"
)

// keyed is the workload of strings with deadlines.
type keyed struct{}

func (keyed) first() []command { return nil }

func (keyed) last() (list []command) {
	for key := range groupKeys {
		list = append(list, command{verb: "GET", key: key}, command{verb: "PEXPIRETIME", key: key})
	}
	return list
}

func (keyed) read(_ int, _ command, reply any) any { return reply }

func (keyed) draw(c *client, _ int, _ string, i int) command {
	cmd := command{key: c.rng.IntN(groupKeys)}
	value := fmt.Sprintf("c%d.%d.%d", c.id, c.sent, i)
	if c.rng.IntN(3) == 0 {
		value = strconv.Itoa((c.id+1)*1_000_000 + c.sent*1000)
	}
	near := 1 + c.rng.Int64N(300)
	switch c.rng.IntN(16) {
	case 0, 1, 2, 3:
		cmd.verb = "GET"
	case 4, 5:
		cmd.verb, cmd.data = "SET", value
	case 6:
		cmd.verb, cmd.data, cmd.ttl = "SET", value, near
	case 7:
		cmd.verb, cmd.data = "SETNX", value
	case 8, 9, 10:
		cmd.verb = "INCR"
	case 11:
		cmd.verb = "DEL"
	case 12:
		cmd.verb, cmd.ttl = "PEXPIRE", near
	case 13:
		cmd.verb, cmd.ttl = "PEXPIRE", []int64{0, 1000, 3_600_000}[c.rng.IntN(3)]
	case 14:
		cmd.verb = "PERSIST"
	default:
		cmd.verb = "PEXPIRETIME"
	}
	return cmd
}

// words returns a command as it is sent. For a time in whole seconds it uses EXPIRE instead of
// PEXPIRE.
func (keyed) words(group int, cmd command) (words []any) {
	words = []any{cmd.verb, keyName(group, cmd.key)}
	switch {
	case cmd.verb == "PEXPIRE" && cmd.ttl%1000 == 0:
		words[0] = "EXPIRE"
		words = append(words, fmt.Sprint(cmd.ttl/1000))
	case cmd.verb == "PEXPIRE":
		words = append(words, fmt.Sprint(cmd.ttl))
	case cmd.verb == "SET" && cmd.ttl != 0:
		words = append(words, cmd.data, "PX", fmt.Sprint(cmd.ttl))
	case cmd.data != "":
		words = append(words, cmd.data)
	}
	return words
}
