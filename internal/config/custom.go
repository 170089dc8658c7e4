package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Client classes of client-output-buffer-limit.
const (
	ClassNormal = iota
	ClassReplica
	ClassPubSub
)

// OutputLimit limits the output that waits for one client. The connection is closed at once if the
// output is larger than Hard. It is also closed if the output is larger than Soft for Seconds. 0
// means no limit.
type OutputLimit struct {
	Hard, Soft int64
	Seconds    int64
}

// OutputLimits are the limits of each class.
type OutputLimits [3]OutputLimit

func readOutputLimits(old value, words []string) (value, error) {
	words = strings.Fields(strings.Join(words, " "))
	if len(words) == 0 || len(words)%4 != 0 {
		//lint:ignore ST1005 Redis's text
		return value{}, errors.New("Wrong number of arguments in buffer limit configuration.")
	}
	limit := old.limit
	for ; len(words) > 0; words = words[4:] {
		class := -1
		switch strings.ToLower(words[0]) {
		case "normal":
			class = ClassNormal
		case "slave", "replica":
			class = ClassReplica
		case "pubsub":
			class = ClassPubSub
		}
		if class < 0 {
			return value{},
				//lint:ignore ST1005 Redis's text
				errors.New("Invalid client class specified in buffer limit configuration.")
		}
		hard, ok1 := parseBytes(words[1])
		soft, ok2 := parseBytes(words[2])
		seconds, err := strconv.ParseUint(words[3], 10, 31)
		if !ok1 || !ok2 || err != nil {
			//lint:ignore ST1005 Redis's text
			return value{}, errors.New(
				"Error in hard, soft or soft_seconds setting in buffer limit configuration.")
		}
		limit[class] = OutputLimit{hard, soft, int64(seconds)}
	}
	v := value{limit: limit}
	v.text = strings.Join(outputLimitLines(v), " ")
	return v, nil
}

func outputLimitLines(v value) []string {
	var lines []string
	for class, name := range []string{"normal", "slave", "pubsub"} {
		l := v.limit[class]
		lines = append(lines, name+" "+strconv.FormatInt(l.Hard, 10)+" "+strconv.FormatInt(l.Soft,
			10)+" "+strconv.FormatInt(l.Seconds, 10))
	}
	return lines
}

// readSave reads pairs of seconds and changes. It adds them to the pairs of old, which earlier
// lines of a file have set. An empty string removes all pairs.
func readSave(old value, words []string) (value, error) {
	invalid := errors.New("Invalid save parameters") //lint:ignore ST1005 Redis's text
	words = strings.Fields(strings.Join(words, " "))
	if len(words)%2 != 0 {
		return value{}, invalid
	}
	for i, word := range words {
		n, err := strconv.ParseInt(word, 10, 32)
		if err != nil || n < 0 || i%2 == 0 && n == 0 {
			return value{}, invalid
		}
	}
	if len(words) > 0 {
		words = append(old.words[:len(old.words):len(old.words)], words...)
	}
	return value{text: strings.Join(words, " "), words: words}, nil
}

func saveLines(v value) []string {
	if len(v.words) == 0 {
		return []string{`""`}
	}
	var lines []string
	for w := v.words; len(w) > 0; w = w[2:] {
		lines = append(lines, w[0]+" "+w[1])
	}
	return lines
}

// eventLetters are the letters of notify-keyspace-events. The first letter stands for bit 0 of the
// mask. The order is that of storage.EventClass.
const eventLetters = "g$lshzxetmdnKEocSTIV"

// eventAll has the letters that A stands for. It lacks m, n, o and c, and the letters that select
// channels (K, E, S, T, I, V).
const eventAll = "g$lshzxetd"

func readEvents(_ value, words []string) (value, error) {
	if len(words) != 1 {
		return value{}, errWords
	}
	var mask int64
	for _, letter := range words[0] {
		if letter == 'A' {
			for _, l := range eventAll {
				mask |= 1 << strings.IndexRune(eventLetters, l)
			}
			continue
		}
		bit := strings.IndexRune(eventLetters, letter)
		if bit < 0 {
			return value{},
				//lint:ignore ST1005 Redis's text
				errors.New("Invalid event class character. Use 'Ag$lshzxeKEtmdnocSTIV'.")
		}
		mask |= 1 << bit
	}
	return value{text: eventText(mask), num: mask}, nil
}

// eventText writes a mask as Redis does. It writes A if all letters of A are set, and otherwise
// those that are set. Then come K and E, and then all other letters.
func eventText(mask int64) string {
	has := func(letter rune) bool { return mask&(1<<strings.IndexRune(eventLetters, letter)) != 0 }
	var b strings.Builder
	for _, l := range eventAll {
		if has(l) {
			b.WriteRune(l)
		}
	}
	if b.String() == eventAll {
		b.Reset()
		b.WriteByte('A')
	}
	for _, l := range "KEmnocSTIV" {
		if has(l) {
			b.WriteRune(l)
		}
	}
	return b.String()
}

func readPercentiles(_ value, words []string) (value, error) {
	words = strings.Fields(strings.Join(words, " "))
	for i, word := range words {
		p, err := strconv.ParseFloat(word, 64)
		if err != nil {
			//lint:ignore ST1005 Redis's text
			return value{}, errors.New("Invalid latency-tracking-info-percentiles parameters")
		}
		if !(p >= 0 && p <= 100) {
			return value{}, errors.New(
				"latency-tracking-info-percentiles parameters should sit between [0.0,100.0]")
		}
		words[i] = strconv.FormatFloat(p, 'g', 17, 64)
	}
	return value{text: strings.Join(words, " "), words: words}, nil
}

// readShare reads a size in bytes or a percentage. It returns a percentage as a negative number.
func readShare(_ value, words []string) (value, error) {
	if len(words) != 1 {
		return value{}, errWords
	}
	if digits, found := strings.CutSuffix(words[0], "%"); found {
		n, err := strconv.ParseUint(digits, 10, 63)
		switch {
		case err != nil:
			return value{}, errShare
		case n > 100:
			return value{}, errors.New("percentage argument must be less or equal to 100")
		}
		text := strconv.FormatUint(n, 10)
		if n > 0 {
			text += "%"
		}
		return value{text: text, num: -int64(n)}, nil
	}
	n, ok := parseBytes(words[0])
	if !ok {
		return value{}, errShare
	}
	return value{text: strconv.FormatInt(n, 10), num: n}, nil
}

var errShare = errors.New("argument must be a memory or percent value")

// leastShare is the smallest limit for maxmemory-clients, in bytes. With a smaller one no client
// could use the server.
const leastShare = 128 << 10

// MaxMemoryClients returns maxmemory-clients in bytes. It computes a percentage from maxmemory. 0
// means no limit.
func (c *Config) MaxMemoryClients() int64 {
	n, of := c.Int("maxmemory-clients"), c.Int("maxmemory")
	if n < 0 {
		n = of/100*-n + of%100*-n/100
	}
	if n == 0 {
		return 0
	}
	return max(n, leastShare)
}

// readScores reads the three numbers of oom-score-adj-values.
func readScores(_ value, words []string) (value, error) {
	const most = 2000
	words = strings.Fields(strings.Join(words, " "))
	if len(words) != 3 {
		return value{}, errWords
	}
	for i, word := range words {
		n, err := strconv.Atoi(word)
		if err != nil || n < -most || n > most {
			return value{},
				//lint:ignore ST1005 Redis's text
				errors.New("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")
		}
		words[i] = strconv.Itoa(n)
	}
	return value{text: strings.Join(words, " "), words: words}, nil
}

// shutdownWords are the words of shutdown-on-sigint and shutdown-on-sigterm, in the order in which
// CONFIG GET shows them.
var shutdownWords = []string{"default", "save", "nosave", "now", "force"}

func readShutdown(_ value, words []string) (value, error) {
	var given [5]bool
	words = strings.Split(strings.ToLower(strings.Join(words, " ")), " ")
	for _, word := range words {
		i := slices.Index(shutdownWords, word)
		if i < 0 {
			return value{}, errOneOf(shutdownWords)
		}
		given[i] = true
	}
	if given[1] && given[2] {
		return value{}, errors.New("shutdown options SAVE and NOSAVE can't be used simultaneously")
	}
	words = words[:0]
	for i, word := range shutdownWords[1:] {
		if given[i+1] {
			words = append(words, word)
		}
	}
	if len(words) == 0 {
		words = shutdownWords[:1]
	}
	return value{text: strings.Join(words, " "), words: words}, nil
}

var titleWords = []string{"title", "listen-addr", "server-mode", "port", "tls-port",
	"unixsocket", "config-file"}

// readTitle reads a template of a process's title: text with names in braces, where "{{" is a
// brace.
func readTitle(_ value, words []string) (value, error) {
	invalid := errors.New("template format is invalid or contains unknown variables")
	if len(words) != 1 {
		return value{}, errWords
	}
	for rest := words[0]; ; {
		_, after, found := strings.Cut(rest, "{")
		if !found {
			break
		}
		if rest, found = strings.CutPrefix(after, "{"); found {
			continue
		}
		name, after, closed := strings.Cut(after, "}")
		if !closed || !slices.Contains(titleWords, name) {
			return value{}, invalid
		}
		rest = after
	}
	if words[0] == "" {
		return value{}, invalid
	}
	return value{text: words[0]}, nil
}
