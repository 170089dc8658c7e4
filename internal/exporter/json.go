package exporter

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"keyp/internal/rdb"
)

// jsonFormat writes a line for each library and each key:
//
//	{"library":"#!lua name=…"}
//	{"db":0,"key":"k","type":"hash","expireAt":1767225600000,"value":…}
//
// Text that is UTF-8 is a string; other text is {"base64":"…"}. Times are in Unix milliseconds.
// Values are:
//
//	string   text
//	list     [text, …]
//	set      [text | [text, deadline], …]
//	zset     [[text, score], [text, score, deadline], …]       a score may be "inf" and "-inf"
//	hash     [[field, text], [field, text, deadline], …]
//	stream   an object, see stream
type jsonFormat struct {
	out  *bufio.Writer
	tmp  []byte
	next bool // something stands before the next thing of an array or object
	err  error
}

// json is a piece of JSON that put writes unchanged. It writes other strings as texts.
type json string

func (f *jsonFormat) library(source string) error {
	f.put(json(`{"library":`), source, json("}\n"))
	return f.err
}

// refuses refuses only Keyp's own types. Deadlines of elements can be written.
func (f *jsonFormat) refuses(k *Key) (string, error) {
	reason, err := rdb.Portable(k.Payload, math.MaxInt)
	if err == nil && rdb.TypeOf(k.Payload).String() != "" {
		reason = ""
	}
	return reason, err
}

func (f *jsonFormat) key(k *Key) error {
	v, err := rdb.Decode(k.Payload)
	if err != nil {
		return err
	}
	f.put(json(`{"db":`), k.DB, json(`,"key":`), k.Name, json(`,"type":"`+v.Type.String()+`"`))
	if k.Deadline != 0 {
		f.put(json(`,"expireAt":`), k.Deadline)
	}
	f.put(json(`,"value":`))
	switch v.Type {
	case rdb.String:
		f.put(v.Str)
	case rdb.Stream:
		f.stream(v.Stream)
	default:
		f.elements(v)
	}
	f.put(json("}\n"))
	return f.err
}

func (f *jsonFormat) end() error { return f.err }

func (f *jsonFormat) elements(v rdb.Value) {
	f.begin('[')
	for e := range v.Elements {
		f.comma()
		if v.Type == rdb.List || v.Type == rdb.Set && e.Deadline == 0 {
			f.put(e.Name)
			continue
		}
		f.put(json("["), e.Name)
		switch v.Type {
		case rdb.Hash:
			f.put(json(","), e.Value)
		case rdb.ZSet:
			f.put(json(","), e.Score)
		}
		if e.Deadline != 0 {
			f.put(json(","), e.Deadline)
		}
		f.put(json("]"))
	}
	f.finish(']')
}

// stream writes
//
//	{"entries":[["id",[field, text, …]], …],"lastId":"id","maxDeletedId":"id","entriesAdded":n,
//	 "groups":[{"name":text,"lastId":"id","entriesRead":n,
//	            "consumers":[[name, seen, active], …],
//	            "pending":[["id", consumer | null, delivered, count], …]}, …],
//	 "idempotence":{"duration":s,"maxSize":n,"added":n,"duplicates":n,"producers":[[name,[[iid,"id"], …]], …]}}
//
// where entriesRead is -1 if it is unknown, and active is -1 if a consumer was never active.
// idempotence is there only if something of it was set.
func (f *jsonFormat) stream(s *rdb.StreamValue) {
	f.put(json(`{"entries":`))
	f.begin('[')
	for e := range s.Entries {
		f.comma()
		f.put(json("["), e.ID, json(","))
		f.begin('[')
		for _, text := range e.Fields {
			f.comma()
			f.put(text)
		}
		f.finish(']')
		f.put(json("]"))
	}
	f.finish(']')
	f.put(json(`,"lastId":`), s.Last, json(`,"maxDeletedId":`), s.MaxDeleted,
		json(`,"entriesAdded":`), s.Added, json(`,"groups":`))
	f.begin('[')
	for i := range s.Groups {
		f.comma()
		f.group(&s.Groups[i])
	}
	f.finish(']')
	if s.Duration != 0 || s.MaxSize != 0 || s.IIDs != 0 || s.Duplicates != 0 ||
		len(s.Producers) > 0 {
		f.idempotence(s)
	}
	f.put(json("}"))
}

func (f *jsonFormat) group(g *rdb.StreamGroup) {
	f.put(json(`{"name":`), g.Name, json(`,"lastId":`), g.Last, json(`,"entriesRead":`), g.Read,
		json(`,"consumers":`))
	f.begin('[')
	for _, c := range g.Consumers {
		f.comma()
		f.put(json("["), c.Name, json(","), c.Seen, json(","), c.Active, json("]"))
	}
	f.finish(']')
	f.put(json(`,"pending":`))
	f.begin('[')
	for _, p := range g.Pending {
		f.comma()
		f.put(json("["), p.ID, json(","))
		if p.Consumer < 0 {
			f.put(json("null"))
		} else {
			f.put(g.Consumers[p.Consumer].Name)
		}
		f.put(json(","), p.Delivered, json(","), p.Count, json("]"))
	}
	f.finish(']')
	f.put(json("}"))
}

func (f *jsonFormat) idempotence(s *rdb.StreamValue) {
	f.put(json(`,"idempotence":{"duration":`), s.Duration, json(`,"maxSize":`), s.MaxSize,
		json(`,"added":`), s.IIDs,
		json(`,"duplicates":`), s.Duplicates, json(`,"producers":`))
	f.begin('[')
	for _, p := range s.Producers {
		f.comma()
		f.put(json("["), p.Name, json(","))
		f.begin('[')
		for _, one := range p.IIDs {
			f.comma()
			f.put(json("["), one.IID, json(","), one.ID, json("]"))
		}
		f.finish(']')
		f.put(json("]"))
	}
	f.finish(']')
	f.put(json("}"))
}

// begin and finish write the brackets of an array or object. comma writes a comma before each
// element but the first.
func (f *jsonFormat) begin(bracket byte) {
	f.tmp = append(f.tmp, bracket)
	f.next = false
}

func (f *jsonFormat) finish(bracket byte) {
	f.tmp = append(f.tmp, bracket)
	f.next = true // for what is around it
}

func (f *jsonFormat) comma() {
	if f.next {
		f.tmp = append(f.tmp, ',')
	}
	f.next = true
}

// put writes pieces: json unchanged, bytes and strings as texts, numbers, and ids of entries.
func (f *jsonFormat) put(pieces ...any) {
	for _, piece := range pieces {
		switch p := piece.(type) {
		case json:
			f.tmp = append(f.tmp, p...)
		case []byte:
			f.text(p)
		case string:
			f.text([]byte(p))
		case float64:
			f.score(p)
		case rdb.StreamID:
			f.tmp = fmt.Appendf(f.tmp, `"%d-%d"`, p.Ms, p.Seq)
		default:
			f.tmp = fmt.Append(f.tmp, p)
		}
	}
	if len(f.tmp) >= bufferBytes || len(f.tmp) > 0 && f.tmp[len(f.tmp)-1] == '\n' {
		f.flush()
	}
}

func (f *jsonFormat) flush() {
	if f.err == nil {
		_, f.err = f.out.Write(f.tmp)
	}
	if f.tmp = f.tmp[:0]; cap(f.tmp) > 4*bufferBytes {
		f.tmp = nil
	}
}

func (f *jsonFormat) score(score float64) {
	switch {
	case math.IsInf(score, 1):
		f.tmp = append(f.tmp, `"inf"`...)
	case math.IsInf(score, -1):
		f.tmp = append(f.tmp, `"-inf"`...)
	default:
		f.tmp = strconv.AppendFloat(f.tmp, score, 'g', -1, 64)
	}
}

func (f *jsonFormat) text(b []byte) {
	if !utf8.Valid(b) {
		f.tmp = append(f.tmp, `{"base64":"`...)
		f.tmp = base64.StdEncoding.AppendEncode(f.tmp, b)
		f.tmp = append(f.tmp, `"}`...)
		return
	}
	f.tmp = append(f.tmp, '"')
	for _, c := range b {
		switch {
		case c == '"' || c == '\\':
			f.tmp = append(f.tmp, '\\', c)
		case c < ' ':
			f.tmp = fmt.Appendf(f.tmp, `\u%04x`, c)
		default:
			f.tmp = append(f.tmp, c)
		}
	}
	f.tmp = append(f.tmp, '"')
}
