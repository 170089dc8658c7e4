package linear

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// collected is the workload of collections. Keys are in groups. The number of the key and that of
// its group decide whether it is a hash, a list, a set or a sorted set. There are few fields,
// members and elements, and values are numbers.
type collected struct{}

// collectionVerbs are the commands on each kind of collection.
var collectionVerbs = [...][]string{
	{"HSET", "HINCRBY", "HINCRBY", "HDEL", "HGETALL", "DEL"},
	{"RPUSH", "RPUSH", "LPUSH", "LPOP", "RPOP", "LRANGE", "LTRIM"},
	{"SADD", "SADD", "SREM", "SMEMBERS", "SCARD", "DEL"},
	{"ZADD", "ZINCRBY", "ZINCRBY", "ZREM", "ZRANGE", "ZPOPMIN"},
}

// kindOf returns the kind of collection at a key.
func kindOf(group, key int) int { return (group + key) % len(collectionVerbs) }

func (collected) first() []command { return nil }

// last returns the commands that read all collections. Their verb is readAll, whatever the kind of
// collection.
func (collected) last() (list []command) {
	for key := range groupKeys {
		list = append(list, command{verb: readAll, key: key})
	}
	return list
}

// readAll is the verb for the command that reads all of a collection. verbOf replaces it.
const readAll = "read all"

var readersOfAll = [...]string{"HGETALL", "LRANGE", "SMEMBERS", "ZRANGE"}

// verbOf returns the name of the command to send.
func (cmd command) verbOf(group int) string {
	if cmd.verb == readAll {
		return readersOfAll[kindOf(group, cmd.key)]
	}
	return cmd.verb
}

func (collected) draw(c *client, group int, _ string, _ int) command {
	cmd := command{key: c.rng.IntN(groupKeys), data: string(rune('a' + c.rng.IntN(4))),
		ttl: c.rng.Int64N(100)}
	verbs := collectionVerbs[kindOf(group, cmd.key)]
	cmd.verb = verbs[c.rng.IntN(len(verbs))]
	return cmd
}

func (collected) words(group int, cmd command) []any {
	verb, n := cmd.verbOf(group), strconv.FormatInt(cmd.ttl, 10)
	words := []any{verb, keyName(group, cmd.key)}
	switch verb {
	case "HSET", "HINCRBY":
		return append(words, cmd.data, n)
	case "ZADD", "ZINCRBY":
		return append(words, n, cmd.data)
	case "HDEL", "SADD", "SREM", "ZREM":
		return append(words, cmd.data)
	case "RPUSH", "LPUSH":
		return append(words, n)
	case "LRANGE":
		return append(words, "0", "-1")
	case "LTRIM":
		return append(words, "0", "9")
	case "ZRANGE":
		return append(words, "0", "-1", "WITHSCORES")
	}
	return words
}

// read returns the same text for replies in either protocol and from scripts. Pairs are sorted by
// their names.
func (collected) read(group int, cmd command, reply any) any {
	switch cmd.verbOf(group) {
	case "HGETALL", "ZRANGE":
		return pairsOf(reply)
	case "ZPOPMIN":
		return pairsOf(reply)
	case "SMEMBERS":
		return inOrder(flat(reply))
	case "LRANGE":
		return strings.Join(flat(reply), ",")
	case "ZINCRBY":
		return flat(reply)[0]
	}
	return reply
}

// flat lists the texts in a reply, at any depth.
func flat(reply any) (list []string) {
	switch r := reply.(type) {
	case []any:
		for _, item := range r {
			list = append(list, flat(item)...)
		}
	case map[any]any:
		for name, value := range r {
			list = append(append(list, flat(name)...), flat(value)...)
		}
	case nil:
	default:
		list = append(list, fmt.Sprint(r))
	}
	return list
}

func inOrder(list []string) string {
	slices.Sort(list)
	return strings.Join(list, ",")
}

func pairsOf(reply any) string {
	var pairs []string
	for list := flat(reply); len(list) > 1; list = list[2:] {
		pairs = append(pairs, list[0]+"="+list[1])
	}
	return inOrder(pairs)
}

// collections is the state of a group: the replies to commands that read all of each key.
type collections [groupKeys]string

var collectionModel = (&porcupine.NondeterministicModel{
	Partition: byGroup,
	Init:      func() []any { return []any{collections{}} },
	Equal:     func(a, b any) bool { return a == b },
	Step: func(s, input, output any) (next []any) {
		before, c, o := s.(collections), input.(call), output.(outcome)
		after, right := before, true
		for i, cmd := range c.commands {
			reply := after.apply(c.group, cmd)
			right = right && (o.lost || o.replies[i] == reply)
		}
		if right {
			next = append(next, after)
		}
		if o.lost && after != before {
			next = append(next, before)
		}
		return next
	},
	DescribeOperation: func(input, output any) string {
		return describe(collected{}, input.(call), output.(outcome))
	},
	DescribeState: func(s any) string { return fmt.Sprintf("%q", s) },
}).ToModel()

// apply runs a command, and returns its reply in the form of collected.read.
func (s *collections) apply(group int, cmd command) any {
	verb, all := cmd.verbOf(group), &s[cmd.key]
	switch verb {
	case "HGETALL", "LRANGE", "SMEMBERS", "ZRANGE":
		return *all
	case "DEL":
		done := *all != ""
		*all = ""
		return number(done)
	case "RPUSH", "LPUSH", "LPOP", "RPOP", "LTRIM":
		return applyToList(all, verb, cmd.ttl)
	case "SADD", "SREM", "SCARD":
		return applyToSet(all, verb, cmd.data)
	}
	return applyToPairs(all, verb, cmd.data, cmd.ttl)
}

func applyToList(all *string, verb string, n int64) any {
	list := elements(*all)
	var reply any
	switch {
	case verb == "RPUSH":
		list = append(list, strconv.FormatInt(n, 10))
		reply = int64(len(list))
	case verb == "LPUSH":
		list = slices.Insert(list, 0, strconv.FormatInt(n, 10))
		reply = int64(len(list))
	case verb == "LTRIM":
		list = list[:min(10, len(list))]
		reply = "OK"
	case len(list) == 0:
		return nil
	case verb == "LPOP":
		reply, list = list[0], list[1:]
	default:
		reply, list = list[len(list)-1], list[:len(list)-1]
	}
	*all = strings.Join(list, ",")
	return reply
}

func applyToSet(all *string, verb, data string) any {
	list := elements(*all)
	i, there := slices.BinarySearch(list, data)
	switch {
	case verb == "SCARD":
		return int64(len(list))
	case verb == "SADD" && !there:
		list = slices.Insert(list, i, data)
	case verb == "SREM" && there:
		list = slices.Delete(list, i, i+1)
	default:
		return int64(0)
	}
	*all = strings.Join(list, ",")
	return int64(1)
}

// applyToPairs runs commands on hashes and sorted sets.
func applyToPairs(all *string, verb, name string, n int64) any {
	list := elements(*all)
	i, there := slices.BinarySearchFunc(list, name, func(pair, name string) int {
		return strings.Compare(pair[:1], name)
	})
	value := int64(0)
	if there {
		value = valueOf(list[i])
	}
	var reply any
	switch verb {
	case "HDEL", "ZREM":
		if there {
			*all = strings.Join(slices.Delete(list, i, i+1), ",")
		}
		return number(there)
	case "ZPOPMIN":
		if len(list) == 0 {
			return ""
		}
		// If several members have the least score, the first by name is taken.
		least := slices.MinFunc(list, func(a, b string) int { return int(valueOf(a) - valueOf(b)) })
		*all = inOrder(slices.DeleteFunc(list, func(pair string) bool { return pair == least }))
		return least
	case "HSET", "ZADD":
		value, reply = n, number(!there)
	case "HINCRBY":
		value += n
		reply = value
	default:
		value += n
		reply = strconv.FormatInt(value, 10)
	}
	pair := name + "=" + strconv.FormatInt(value, 10)
	if there {
		list[i] = pair
	} else {
		list = slices.Insert(list, i, pair)
	}
	*all = strings.Join(list, ",")
	return reply
}

func valueOf(pair string) int64 {
	n, err := strconv.ParseInt(pair[2:], 10, 64)
	if err != nil {
		panic(err) // the model has made it
	}
	return n
}

// elements splits a text, as reading a whole collection returns it, into its elements.
func elements(all string) []string {
	if all == "" {
		return nil
	}
	return strings.Split(all, ",")
}
