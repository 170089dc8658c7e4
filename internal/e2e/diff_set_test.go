package e2e

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"slices"
	"strconv"
	"strings"
)

var setGenerators = []generator{
	{14, drawSAdd},
	{6, func(g *gen) []string { return append([]string{"SREM", g.set()}, g.members(3)...) }},
	{3, func(g *gen) []string { return []string{"SCARD", g.set()} }},
	{4, func(g *gen) []string { return []string{"SMEMBERS", g.set()} }},
	{3, func(g *gen) []string { return []string{"SISMEMBER", g.set(), g.member()} }},
	{3, func(g *gen) []string { return append([]string{"SMISMEMBER", g.set()}, g.members(4)...) }},
	{5, func(g *gen) []string { return []string{"SMOVE", g.set(), g.set(), g.member()} }},
	{8, func(g *gen) []string {
		return append([]string{g.from("SINTER", "SUNION", "SDIFF")}, g.sets(4)...)
	}},
	{8, func(g *gen) []string {
		return append([]string{g.from("SINTERSTORE", "SUNIONSTORE", "SDIFFSTORE"), g.set()},
			g.sets(4)...)
	}},
	{4, drawSInterCard},
	{7, func(g *gen) []string { return drawRandom(g, g.from("SPOP", "SRANDMEMBER")) }},
	{4, drawSScan},
	{6, func(g *gen) []string { return drawOn(g, g.set) }},
	{5, drawRestore},
	{3, func(g *gen) []string { return []string{"DUMP", g.from("s", "l", "h", "z", g.key())} }},
}

var setValues = []func(key string) []string{
	func(key string) []string { return []string{"SMEMBERS", key} },
}

// set draws a key that mostly holds a set.
func (g *gen) set() string {
	if g.few || g.chance(8) {
		return g.key()
	}
	return g.from("s", "s", "s", "t", "u", "v")
}

func (g *gen) sets(most int) []string {
	list := make([]string, 1+g.IntN(most))
	for i := range list {
		list[i] = g.set()
	}
	return list
}

// member draws mostly one of few members, so that sets share members.
func (g *gen) member() string {
	switch {
	case g.chance(3):
		return strings.Repeat("m", one(g, 63, 64, 65, 300))
	case g.chance(10):
		return g.odd()
	case g.chance(20):
		return g.from("a", "b", "c", "", "\x00\r\n\xff", "日本語")
	}
	return g.between(-3, 6)
}

func (g *gen) members(most int) []string {
	list := make([]string, 1+g.IntN(most))
	for i := range list {
		list[i] = g.member()
	}
	return list
}

// drawSAdd adds a few members, or enough to make the set a large one. It avoids 512 members, since
// disturb may repeat one of them, and newer versions count the named members.
func drawSAdd(g *gen) []string {
	args := []string{"SADD", g.set()}
	if !g.chance(6) {
		return append(args, g.members(6)...)
	}
	prefix := g.from("", "many")
	for i := range one(g, 127, 128, 129, 511, 513, 700) {
		args = append(args, prefix+strconv.Itoa(i))
	}
	return args
}

func drawSInterCard(g *gen) []string {
	keys := g.sets(3)
	count := strconv.Itoa(len(keys))
	if g.chance(20) {
		count = g.from("0", "-1", "x", "1", "2", "99", "", "9223372036854775807")
	}
	args := append([]string{"SINTERCARD", count}, keys...)
	if g.chance(40) {
		args = append(args, g.from("LIMIT", "limit", "LIMIT", "BAD"),
			g.from("0", "1", "2", "100", "-1", "x"))
	}
	if g.chance(5) {
		args = append(args, "LIMIT")
	}
	return args
}

func drawRandom(g *gen, name string) []string {
	args := []string{name, g.set()}
	if g.chance(70) {
		count := g.from("0", "1", "2", "5", "100", "500", "1000", "x", "", "9223372036854775807",
			"9223372036854775808")
		if name == "SRANDMEMBER" && g.chance(40) {
			count = g.from("-1", "-5", "-1000", "-9223372036854775808")
		}
		args = append(args, count)
	}
	return args
}

func drawSScan(g *gen) []string {
	args := []string{"SSCAN", g.set(), "0"}
	if g.chance(10) {
		args[2] = g.from("x", "", " 0", "0 ", "1.5", "18446744073709551616", "-")
	}
	var options [][]string
	if g.chance(50) {
		options = append(options, []string{"MATCH", g.from("*", "a*", "?", "many*1", "[1-3]", "")})
	}
	if g.chance(50) {
		options = append(options,
			[]string{"COUNT", g.from("1", "2", "5", "1000", "0", "-1", "x", "2147483647")})
	}
	if g.chance(5) {
		options = append(options, []string{g.from("MATCH", "BAD", "TYPE set")})
	}
	return append(args, g.shuffle(options)...)
}

// payloads has values in the format of DUMP, without the bytes at the end: values of each type, and
// some invalid ones. None begins with the byte of a symbolic time, as a set of strings would.
var payloads = []string{
	"\x00\x01v", "\x00\xc0\x07", "\x01\x02\x01a\x01b", "\x04\x02\x01f\x01v\x01g\xc0\x09",
	"\x05\x01\x01a\x00\x00\x00\x00\x00\x00\xf0\x3f",
	"\x0b\x0c\x02\x00\x00\x00\x02\x00\x00\x00\x01\x00\x02\x00",
	"\x00\x7f\xffv", "\x04\x00", "\x63\x01a", "",
}

func drawRestore(g *gen) []string {
	body := binary.LittleEndian.AppendUint16([]byte(g.from(payloads...)),
		uint16(one(g, 10, 10, 10, 9, 6, 200)))
	sum := ^crc64.Update(^uint64(0), crc64.MakeTable(0x95ac9329ac4bc9b5), body)
	if g.chance(3) {
		sum++
	}
	args := []string{"RESTORE", g.from("s", "l", "h", "r", g.key()), "0",
		string(binary.LittleEndian.AppendUint64(body, sum))}
	var options [][]string
	switch {
	case g.chance(10):
		args[2] = g.from("-1", "x", "", "1.5")
	case g.chance(20):
		args[2] = symbol + "at-ms " + g.from("100000", "5000000", "-10")
		options = append(options, []string{g.from("ABSTTL", "absttl")})
	case g.chance(30) && !g.absolute:
		args[2] = symbol + "for-ms 1"
	}
	if g.chance(60) {
		options = append(options, []string{g.from("REPLACE", "replace")})
	}
	if g.chance(10) {
		options = append(options, []string{"FREQ", g.from("0", "255", "256", "-1", "x")})
	}
	if g.chance(10) {
		options = append(options, []string{g.from("BAD", "IDLETIME", "FREQ")})
	}
	return append(args, g.shuffle(options)...)
}

// alikeSet compares replies that list members. After SPOP it makes the sets equal again.
func (r *diffRun) alikeSet(p pair, args []string, keyp, redis reply) (bool, error) {
	name := strings.ToUpper(args[0])
	if keyp.kind != redis.kind || keyp.isError() || keyp.null ||
		len(keyp.items) != len(redis.items) {
		return false, nil
	}
	switch name {
	case "SRANDMEMBER":
		return p.areMembers(args, keyp, redis)
	case "SPOP":
		return true, p.popAlike(args[1], listed(keyp), listed(redis))
	}
	return keyp.unordered(1) == redis.unordered(1), nil
}

// listed returns the members in a reply. A reply that is no list is one member.
func listed(r reply) []string {
	if r.kind == '$' {
		return []string{r.text}
	}
	return r.texts()
}

// areMembers returns true if the replies of both servers are members of the set. With a positive
// count the members must be different.
func (p pair) areMembers(args []string, keyp, redis reply) (bool, error) {
	for _, side := range []struct {
		*wire
		drawn []string
	}{{p.keyp, listed(keyp)}, {p.redis, listed(redis)}} {
		there, err := side.do(append([]string{"SMISMEMBER", args[1]}, side.drawn...)...)
		if err != nil || slices.Contains(there.texts(), "0") {
			return false, err
		}
		slices.Sort(side.drawn)
		if !strings.HasPrefix(args[len(args)-1], "-") &&
			len(slices.Compact(side.drawn)) != len(there.items) {
			return false, nil
		}
	}
	return true, nil
}

// popAlike makes Keyp's set equal to Redis's after each has popped different members. It fails if
// the sets were not equal before.
func (p pair) popAlike(key string, ours, theirs []string) error {
	ourRest, err := p.keyp.do("SMEMBERS", key)
	theirRest, err2 := p.redis.do("SMEMBERS", key)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if n := len(theirRest.items); n > 0 && n*5 <= len(theirs) {
		// The rest is a new set on both sides, whose encoding depends on its members.
		all := append(ourRest.texts(), ours...)
		before := append(theirRest.texts(), theirs...)
		slices.Sort(all)
		slices.Sort(before)
		if !slices.Equal(all, before) {
			return fmt.Errorf("keyp had %q, redis had %q", all, before)
		}
		return p.restoreAlike(key)
	}
	if _, err := p.keyp.do(append([]string{"SADD", key}, ours...)...); err != nil {
		return err
	}
	_, err = p.keyp.do(append([]string{"SREM", key}, theirs...)...)
	return err
}

// restoreAlike sets Keyp's key to the value of Redis's key, and keeps the deadline.
func (p pair) restoreAlike(key string) error {
	dump, err := p.redis.do("DUMP", key)
	deadline, err2 := p.keyp.do("PEXPIRETIME", key)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	at := strings.TrimPrefix(deadline.text, "-1")
	reply, err := p.keyp.do("RESTORE", key, cmp.Or(at, "0"), dump.text, "REPLACE", "ABSTTL")
	if err == nil && reply.text != "OK" {
		err = fmt.Errorf("RESTORE %q: %s", key, reply.raw)
	}
	return err
}

// alikeDump returns true if Redis accepts the dump of Keyp, and Keyp that of Redis.
func (p pair) alikeDump(keyp, redis reply) (bool, error) {
	if keyp.kind != '$' || redis.kind != '$' || keyp.null || redis.null {
		return false, nil
	}
	const key = "what was dumped"
	for _, side := range []struct {
		*wire
		payload string
	}{{p.keyp, redis.text}, {p.redis, keyp.text}} {
		restored, err := side.do("RESTORE", key, "0", side.payload)
		if err != nil || restored.text != "OK" {
			return false, err
		}
	}
	for _, command := range [][]string{{"TYPE", key}, {"DEL", key}} {
		if ours, theirs, err := p.ask(command...); err != nil || ours.raw != theirs.raw {
			return false, err
		}
	}
	return true, nil
}
