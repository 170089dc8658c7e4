package commands

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// modelHash is the expected content of a hash at the time now. No field of it has expired.
type modelHash struct {
	now    int64
	fields map[string]modelField
}

type modelField struct {
	val      string
	deadline int64
}

// expire deletes the expired fields.
func (m *modelHash) expire() {
	for name, f := range m.fields {
		if f.deadline != 0 && f.deadline <= m.now {
			delete(m.fields, name)
		}
	}
}

// set sets a field. A deadline that has passed deletes it.
func (m *modelHash) set(name, val string, deadline int64) {
	m.fields[name] = modelField{val, deadline}
	m.expire()
}

var (
	someField  = rapid.SampledFrom([]string{"a", "b", "c", "d", ""})
	someFields = rapid.SliceOfN(someField, 1, 4)
	shortValue = rapid.SampledFrom([]string{"", "1", "-7", "x", strings.Repeat("v", 40)})
)

// modelTime is a time argument of a command, and the deadline that it means.
type modelTime struct {
	n        string
	unit     int64 // ms
	absolute bool
	deadline int64
}

func drawTime(t *rapid.T, now int64) modelTime {
	m := modelTime{unit: rapid.SampledFrom([]int64{1, 1000}).Draw(t, "unit"),
		absolute: rapid.Bool().Draw(t, "absolute")}
	n := rapid.SampledFrom([]int64{0, 1, 2, 5, 100, 100_000}).Draw(t, "n")
	m.deadline = now + n*m.unit
	if m.absolute {
		n += now / m.unit
		m.deadline = n * m.unit
	}
	m.n = decimal(n)
	return m
}

// word returns the matching option of HSETEX and HGETEX.
func (m modelTime) word() string {
	return map[bool]map[int64]string{false: {1: "PX", 1000: "EX"},
		true: {1: "PXAT", 1000: "EXAT"}}[m.absolute][m.unit]
}

// name returns the matching command of the HEXPIRE family.
func (m modelTime) name() string {
	return map[bool]map[int64]string{false: {1: "HPEXPIRE", 1000: "HEXPIRE"},
		true: {1: "HPEXPIREAT", 1000: "HEXPIREAT"}}[m.absolute][m.unit]
}

// hashSteps are the possible changes of the hash. Each returns a command and the expected reply,
// and changes the model.
var hashSteps = []func(t *rapid.T, m *modelHash) (args []string, want string){
	stepHSet, stepHSetEx, stepHSetEx, stepHExpire, stepHExpire, stepHPersist, stepHGetEx,
	stepHGetDel, stepHDel, stepHIncrBy,
}

func stepHSet(t *rapid.T, m *modelHash) ([]string, string) {
	args, created := []string{"HSET", "h"}, 0
	for _, name := range someFields.Draw(t, "fields") {
		if _, ok := m.fields[name]; !ok {
			created++
		}
		val := shortValue.Draw(t, "value")
		m.set(name, val, 0)
		args = append(args, name, val)
	}
	return args, strconv.Itoa(created)
}

func stepHSetEx(t *rapid.T, m *modelHash) ([]string, string) {
	names := someFields.Draw(t, "fields")
	condition := rapid.SampledFrom([]string{"", "FNX", "FXX"}).Draw(t, "condition")
	args, holds := []string{"HSETEX", "h"}, true
	if condition != "" {
		args = append(args, condition)
	}
	for _, name := range names {
		_, ok := m.fields[name]
		holds = holds && (condition == "" || ok == (condition == "FXX"))
	}
	at := drawTime(t, m.now)
	kind := rapid.SampledFrom([]string{"", "KEEPTTL", "time"}).Draw(t, "kind")
	switch kind {
	case "KEEPTTL":
		args = append(args, kind)
	case "time":
		args = append(args, at.word(), at.n)
	}
	args = append(args, "FIELDS", strconv.Itoa(len(names)))
	for _, name := range names {
		val := shortValue.Draw(t, "value")
		args = append(args, name, val)
		if holds {
			deadline := map[string]int64{"KEEPTTL": m.fields[name].deadline,
				"time": at.deadline}[kind]
			m.set(name, val, deadline)
		}
	}
	if holds {
		return args, "1"
	}
	return args, "0"
}

func stepHExpire(t *rapid.T, m *modelHash) ([]string, string) {
	at := drawTime(t, m.now)
	condition := rapid.SampledFrom([]string{"", "NX", "XX", "GT", "LT"}).Draw(t, "condition")
	names := someFields.Draw(t, "fields")
	args := []string{at.name(), "h", at.n}
	if condition != "" {
		args = append(args, condition)
	}
	args = append(append(args, "FIELDS", strconv.Itoa(len(names))), names...)
	var codes []string
	for _, name := range names {
		f, ok := m.fields[name]
		code := "1"
		switch {
		case !ok:
			code = "-2"
		case condition == "NX" && f.deadline != 0, condition == "XX" && f.deadline == 0,
			condition == "GT" && (f.deadline == 0 || at.deadline <= f.deadline),
			condition == "LT" && f.deadline != 0 && at.deadline >= f.deadline:
			code = "0"
		default:
			if at.deadline <= m.now {
				code = "2"
			}
			m.set(name, f.val, at.deadline)
		}
		codes = append(codes, code)
	}
	return args, "[" + strings.Join(codes, ", ") + "]"
}

func stepHPersist(t *rapid.T, m *modelHash) ([]string, string) {
	names := someFields.Draw(t, "fields")
	var codes []string
	for _, name := range names {
		f, ok := m.fields[name]
		code := "1"
		switch {
		case !ok:
			code = "-2"
		case f.deadline == 0:
			code = "-1"
		default:
			m.set(name, f.val, 0)
		}
		codes = append(codes, code)
	}
	return append([]string{"HPERSIST", "h", "FIELDS", strconv.Itoa(len(names))}, names...),
		"[" + strings.Join(codes, ", ") + "]"
}

// values returns the reply with the values of the fields, and calls change for each field that
// exists.
func (m *modelHash) values(names []string, change func(name string, f modelField)) string {
	var list []string
	for _, name := range names {
		f, ok := m.fields[name]
		if !ok {
			list = append(list, "nil")
			continue
		}
		list = append(list, strconv.Quote(f.val))
		change(name, f)
	}
	return "[" + strings.Join(list, ", ") + "]"
}

func stepHGetEx(t *rapid.T, m *modelHash) ([]string, string) {
	names := someFields.Draw(t, "fields")
	at := drawTime(t, m.now)
	args := append([]string{"HGETEX", "h", "FIELDS", strconv.Itoa(len(names))}, names...)
	switch rapid.SampledFrom([]string{"", "PERSIST", "time"}).Draw(t, "kind") {
	case "PERSIST":
		return append(args, "PERSIST"), m.values(names, func(name string, f modelField) {
			m.set(name, f.val, 0)
		})
	case "time":
		return append(args, at.word(), at.n), m.values(names, func(name string, f modelField) {
			m.set(name, f.val, at.deadline)
		})
	}
	return args, m.values(names, func(string, modelField) {})
}

func stepHGetDel(t *rapid.T, m *modelHash) ([]string, string) {
	names := someFields.Draw(t, "fields")
	want := m.values(names, func(name string, _ modelField) { delete(m.fields, name) })
	return append([]string{"HGETDEL", "h", "FIELDS", strconv.Itoa(len(names))}, names...), want
}

func stepHDel(t *rapid.T, m *modelHash) ([]string, string) {
	names := someFields.Draw(t, "fields")
	before := len(m.fields)
	for _, name := range names {
		delete(m.fields, name)
	}
	return append([]string{"HDEL", "h"}, names...), strconv.Itoa(before - len(m.fields))
}

func stepHIncrBy(t *rapid.T, m *modelHash) ([]string, string) {
	name := someField.Draw(t, "field")
	f, ok := m.fields[name]
	n, err := strconv.Atoi(f.val)
	args := []string{"HINCRBY", "h", name, "3"}
	if ok && err != nil {
		return args, "-ERR hash value is not an integer"
	}
	m.set(name, strconv.Itoa(n+3), f.deadline)
	return args, strconv.Itoa(n + 3)
}

// TestHashModel: fields, values and deadlines are always those of a map with deadlines, whatever
// commands run. This holds in small and large hashes, at every moment, and over restarts.
func TestHashModel(t *testing.T) {
	property(t, "a hash is a map with deadlines", func(t *rapid.T, h *harness) {
		m := &modelHash{now: h.clock.Now(), fields: map[string]modelField{}}
		if rapid.IntRange(0, 3).Draw(t, "large") == 0 {
			args := []string{"HSET", "h"}
			for i := range 600 {
				m.set(fmt.Sprint("many", i), "v", 0)
				args = append(args, fmt.Sprint("many", i), "v")
			}
			must(t, h, "600", args...)
		}
		for range rapid.IntRange(5, 40).Draw(t, "steps") {
			switch n := rapid.IntRange(0, 79).Draw(t, "between"); {
			case n < 16:
				h.clock.Advance(time.Duration(rapid.SampledFrom([]int64{1, 2, 99, 1000, 5000}).Draw(
					t, "wait")) * time.Millisecond)
			case n == 16:
				h.save = rapid.Bool().Draw(t, "save")
				h.reopen()
			}
			m.now = h.clock.Now()
			m.expire()
			args, want := rapid.SampledFrom(hashSteps).Draw(t, "step")(t, m)
			must(t, h, want, args...)
			m.compare(t, h)
		}
		if rapid.IntRange(0, 3).Draw(t, "restart") == 0 {
			h.save = rapid.Bool().Draw(t, "save")
			h.reopen()
			m.compare(t, h)
		}
	})
}

// compare compares the whole hash with the model.
func (m *modelHash) compare(t *rapid.T, h *harness) {
	t.Helper()
	keys := "0"
	if len(m.fields) > 0 {
		keys = "1"
	}
	must(t, h, keys, "EXISTS", "h")
	must(t, h, strconv.Itoa(len(m.fields)), "HLEN", "h")
	var want, got []string
	ask := []string{"HPEXPIRETIME", "h", "FIELDS", strconv.Itoa(len(m.fields))}
	deadlines := make([]string, 0, len(m.fields))
	for name, f := range m.fields {
		want = append(want, fmt.Sprintf("%q: %q", name, f.val))
		ask = append(ask, name)
		deadline := "-1"
		if f.deadline != 0 {
			deadline = decimal(f.deadline)
		}
		deadlines = append(deadlines, deadline)
	}
	if len(m.fields) > 0 {
		must(t, h, "["+strings.Join(deadlines, ", ")+"]", ask...)
	}
	reply, _ := parseReply(nil, h.raw(byteArgs("HGETALL", "h")...))
	all := reply.([]any)
	for i := 0; i < len(all); i += 2 {
		got = append(got, fmt.Sprintf("%q: %q", all[i], all[i+1]))
	}
	sort.Strings(want)
	sort.Strings(got)
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Fatalf("HGETALL: %v, want %v", got, want)
	}
}
