package linear

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// streamed is the workload of streams with consumer groups. It remembers the IDs that its client
// has seen.
type streamed struct {
	seen [groups][groupKeys][]id // the latest ones, oldest first
	// The IDs of entries that the client was given and has not acknowledged.
	got [groups][groupKeys][]id
}

const (
	seenMost  = 12
	consumers = 3
	// chosen is the stream in which clients choose a part of the IDs (1-*), and delete entries. In
	// the others the server chooses the IDs.
	chosen = 1
	// awaited is the stream that most blocking commands wait for, so that several wait at a time.
	awaited = 2
)

// id is an entry's ID. The zero value means none, or an unknown one.
type id struct{ ms, seq uint64 }

func (i id) String() string { return fmt.Sprintf("%d-%d", i.ms, i.seq) }

func (i id) less(j id) bool { return i.ms < j.ms || i.ms == j.ms && i.seq < j.seq }

func parseID(text string) id {
	ms, seq, _ := strings.Cut(text, "-")
	i, err := strconv.ParseUint(ms, 10, 64)
	j, err2 := strconv.ParseUint(seq, 10, 64)
	if err != nil || err2 != nil {
		panic("no ID: " + text)
	}
	return id{i, j}
}

// streamOptions has the options that only commands on streams have.
type streamOptions struct {
	of       int // the group, 0 or 1
	consumer string
	id       id
	from     string        // where XREADGROUP, XGROUP CREATE and SETID begin: ">", "0", "$"
	n        int           // COUNT and MAXLEN; 0: none
	block    time.Duration // 0: it does not wait; forever
	noAck    bool
	mode     string // of XNACK
}

// forever is BLOCK 0.
const forever = -1

// shown is an entry in a reply. A deleted entry has only its ID.
type shown struct {
	id    id
	value string
	gone  bool
}

// owned is a pending entry in XPENDING's reply.
type owned struct {
	id       id
	consumer string
	count    int64
}

// claimed is the reply to XAUTOCLAIM.
type claimed struct {
	next    id
	entries []shown
	gone    []id
}

// groupShown is a group in the reply to XINFO GROUPS.
type groupShown struct {
	name    string
	pending int64
	last    id
}

// streamVerbs are the commands that must have had an effect in every useful history.
var streamVerbs = []string{
	"XADD", "XLEN", "XRANGE", "XREAD", "XREADGROUP", "XACK", "XPENDING", "XINFO GROUPS", "XCLAIM",
	"XAUTOCLAIM", "XNACK", "XDEL", "XTRIM",
}

// did reports whether a reply shows that the command had an effect.
func did(reply any) bool {
	switch r := reply.(type) {
	case nil, refusal:
		return false
	case int64:
		return r != 0
	case []shown:
		return len(r) > 0
	case []owned:
		return len(r) > 0
	case claimed:
		return len(r.entries) > 0
	}
	return true
}

func (s *streamed) first() (list []command) {
	for key := range groupKeys {
		for of := range streamGroups {
			list = append(list, command{verb: "XGROUP CREATE", key: key,
				streamOptions: streamOptions{of: of, from: "0"}})
		}
	}
	return list
}

func (s *streamed) last() (list []command) {
	for key := range groupKeys {
		list = append(list, command{verb: "XRANGE", key: key},
			command{verb: "XINFO GROUPS", key: key})
		for of := range streamGroups {
			list = append(list, command{verb: "XPENDING", key: key,
				streamOptions: streamOptions{of: of}})
		}
	}
	return list
}

func (s *streamed) draw(c *client, group int, way string, i int) command {
	rng := c.rng
	cmd := command{key: rng.IntN(groupKeys)}
	cmd.of = rng.IntN(3) / 2 // most in the first group
	cmd.consumer = fmt.Sprint("c", rng.IntN(consumers))
	switch rng.IntN(33) {
	case 0, 1, 2, 3, 4, 5, 6, 7:
		cmd.verb, cmd.data = "XADD", fmt.Sprintf("c%d.%d.%d", c.id, c.sent, i)
		if rng.IntN(4) == 0 {
			cmd.n = 5 + rng.IntN(10)
		}
	case 8, 9, 10, 11, 12, 13:
		cmd.verb, cmd.from, cmd.n, cmd.noAck = "XREADGROUP", ">", rng.IntN(4), rng.IntN(8) == 0
		if cmd.block = drawBlock(rng, way); cmd.block != 0 && rng.IntN(4) > 0 {
			cmd.key = awaited
		}
	case 14, 15:
		cmd.verb, cmd.from, cmd.n = "XREADGROUP", "0", rng.IntN(4)
	case 16, 17, 18, 19:
		cmd.verb, cmd.id = "XACK", s.drawID(rng, group, cmd.key, true)
	case 20, 30:
		cmd.verb, cmd.n, cmd.key = "XREAD", rng.IntN(4), awaited-rng.IntN(2)
		cmd.id, cmd.block = s.drawID(rng, group, cmd.key, false), drawBlock(rng, way)
	case 21, 22:
		cmd.verb = "XPENDING"
	case 23:
		cmd.verb = "XRANGE"
	case 24:
		cmd.verb = "XINFO GROUPS"
	case 25:
		cmd.verb, cmd.id = "XCLAIM", s.drawID(rng, group, cmd.key, true)
	case 26:
		cmd.verb, cmd.n = "XAUTOCLAIM", 1+rng.IntN(4)
	case 27:
		cmd.verb, cmd.id, cmd.mode = "XNACK", s.drawID(rng, group, cmd.key, true),
			[]string{"SILENT", "FAIL"}[rng.IntN(2)]
	case 28:
		cmd.verb, cmd.id = "XDEL", s.drawID(rng, group, cmd.key, false)
	case 29:
		cmd.verb = "XLEN"
	case 31:
		cmd.verb, cmd.n = "XTRIM", 2+rng.IntN(10)
	default:
		drawRare(rng, &cmd)
	}
	return cmd
}

// drawRare draws one of the commands that change more than a few entries.
func drawRare(rng *rand.Rand, cmd *command) {
	switch rng.IntN(6) {
	case 0:
		cmd.verb, cmd.from = "XGROUP SETID", []string{"0", "$"}[rng.IntN(2)]
	case 1:
		cmd.verb = "XGROUP DELCONSUMER"
	case 2:
		cmd.verb = "XGROUP DESTROY"
	case 3:
		cmd.verb, cmd.key = "DEL", chosen
	default:
		cmd.verb, cmd.from = "XGROUP CREATE", []string{"0", "$"}[rng.IntN(2)]
	}
}

// drawBlock returns how long a command waits. In scripts it never waits.
func drawBlock(rng *rand.Rand, way string) time.Duration {
	switch {
	case way == "EVAL" || rng.IntN(2) == 0:
		return 0
	case rng.IntN(4) == 0:
		return forever
	}
	return time.Duration(1+rng.IntN(60)) * time.Millisecond
}

// drawID draws an ID that the client has seen, mostly a recent one. With own it draws mostly an ID
// that the client was given.
func (s *streamed) drawID(rng *rand.Rand, group, key int, own bool) id {
	if got := &s.got[group][key]; own && len(*got) > 0 && rng.IntN(4) > 0 {
		at := rng.IntN(len(*got))
		drawn := (*got)[at]
		*got = slices.Delete(*got, at, at+1)
		return drawn
	}
	if seen := s.seen[group][key]; len(seen) > 0 {
		return seen[max(rng.IntN(len(seen)), rng.IntN(len(seen)))]
	}
	return id{1, 1}
}

func (s *streamed) words(group int, cmd command) (words []any) {
	add := func(list ...string) {
		for _, word := range list {
			words = append(words, word)
		}
	}
	key, of, n := keyName(group, cmd.key), streamGroups[cmd.of], strconv.Itoa(cmd.n)
	verb, sub, _ := strings.Cut(cmd.verb, " ")
	add(verb)
	switch cmd.verb {
	case "XGROUP CREATE":
		add(sub, key, of, cmd.from, "MKSTREAM")
	case "XGROUP SETID":
		add(sub, key, of, cmd.from)
	case "XGROUP DESTROY":
		add(sub, key, of)
	case "XGROUP DELCONSUMER":
		add(sub, key, of, cmd.consumer)
	case "XINFO GROUPS":
		add(sub, key)
	case "XADD":
		add(key)
		if cmd.n > 0 {
			add("MAXLEN", n)
		}
		add(cmd.newID(), "v", cmd.data)
	case "XRANGE":
		add(key, "-", "+")
	case "XREADGROUP", "XREAD":
		words = append(words, cmd.readWords(key, of)...)
	case "XACK":
		add(key, of, cmd.id.String())
	case "XPENDING":
		add(key, of, "-", "+", "1000000")
	case "XCLAIM":
		add(key, of, cmd.consumer, "0", cmd.id.String())
	case "XAUTOCLAIM":
		add(key, of, cmd.consumer, "0", "0-0", "COUNT", n)
	case "XNACK":
		add(key, of, cmd.mode, "IDS", "1", cmd.id.String())
	case "XDEL":
		add(key, cmd.id.String())
	case "XTRIM":
		add(key, "MAXLEN", n)
	case "XLEN", "DEL":
		add(key)
	default:
		panic("no such command: " + cmd.verb)
	}
	return words
}

// newID returns the ID argument of XADD.
func (cmd command) newID() string {
	if cmd.key == chosen {
		return "1-*"
	}
	return "*"
}

// readWords returns the arguments of XREADGROUP and XREAD.
func (cmd command) readWords(key, of string) (words []any) {
	from := cmd.id.String()
	if cmd.verb == "XREADGROUP" {
		words, from = append(words, "GROUP", of, cmd.consumer), cmd.from
	}
	if cmd.n > 0 {
		words = append(words, "COUNT", strconv.Itoa(cmd.n))
	}
	switch {
	case cmd.block == forever:
		words = append(words, "BLOCK", "0")
	case cmd.block > 0:
		words = append(words, "BLOCK", fmt.Sprint(cmd.block.Milliseconds()))
	}
	if cmd.noAck {
		words = append(words, "NOACK")
	}
	return append(words, "STREAMS", key, from)
}

func (s *streamed) read(group int, cmd command, reply any) any {
	switch {
	case reply == nil:
		return nil
	case cmd.verb == "XADD":
		added := parseID(reply.(string))
		s.note(group, cmd.key, added)
		return added
	case cmd.verb == "XRANGE" || cmd.verb == "XCLAIM":
		return s.entries(group, cmd, reply)
	case cmd.verb == "XREADGROUP" || cmd.verb == "XREAD":
		return s.entries(group, cmd, onlyStream(reply))
	case cmd.verb == "XAUTOCLAIM":
		parts := reply.([]any)
		var gone []id
		for _, text := range parts[2].([]any) {
			gone = append(gone, parseID(text.(string)))
		}
		return claimed{parseID(parts[0].(string)), s.entries(group, cmd, parts[1]), gone}
	case cmd.verb == "XPENDING":
		list := []owned{}
		for _, item := range reply.([]any) {
			parts := item.([]any)
			list = append(list, owned{parseID(parts[0].(string)), parts[1].(string),
				parts[3].(int64)})
			s.note(group, cmd.key, list[len(list)-1].id)
		}
		return list
	case cmd.verb == "XINFO GROUPS":
		return groupsShown(reply)
	}
	return reply
}

// entries parses a list of entries. It remembers the IDs of those that the client has been given.
func (s *streamed) entries(group int, cmd command, reply any) []shown {
	list := []shown{}
	for _, item := range reply.([]any) {
		parts := item.([]any)
		e := shown{id: parseID(parts[0].(string)), gone: parts[1] == nil || parts[1] == false}
		if !e.gone {
			e.value = parts[1].([]any)[1].(string)
		}
		list = append(list, e)
		s.note(group, cmd.key, e.id)
		if cmd.verb != "XRANGE" && cmd.verb != "XREAD" {
			got := &s.got[group][cmd.key]
			*got = lastOf(append(*got, e.id))
		}
	}
	return list
}

// note remembers an ID.
func (s *streamed) note(group, key int, seen id) {
	list := &s.seen[group][key]
	*list = lastOf(append(*list, seen))
}

func lastOf(list []id) []id { return list[max(0, len(list)-seenMost):] }

// onlyStream returns the entries of the only stream in a reply of RESP2 or RESP3.
func onlyStream(reply any) any {
	if streams, ok := reply.(map[any]any); ok {
		for _, entries := range streams {
			return entries
		}
	}
	return reply.([]any)[0].([]any)[1]
}

// groupsShown parses the reply to XINFO GROUPS.
func groupsShown(reply any) []groupShown {
	list := []groupShown{}
	for _, item := range reply.([]any) {
		fields := map[any]any{}
		switch item := item.(type) {
		case map[any]any:
			fields = item
		case []any:
			for i := 0; i < len(item); i += 2 {
				fields[item[i]] = item[i+1]
			}
		}
		list = append(list, groupShown{fields["name"].(string), fields["pending"].(int64),
			parseID(fields["last-delivered-id"].(string))})
	}
	return list
}
