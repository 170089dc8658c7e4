package commands

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math"

	"keyp/storage/object"
)

var streamAddCommands = []Spec{
	{
		Name: "XADD", Group: StreamGroup, Since: "5.0.0",
		Summary:    "Adds an entry to the end of a stream, which may be trimmed then, and replies the entry's ID.",
		Complexity: "O(1), and O(N) in the entries that are trimmed.",
		History: [][2]string{
			{"6.2.0",
				"Added the `NOMKSTREAM` option, `MINID` trimming strategy and the `LIMIT` option."},
			{"7.0.0", "Added support for the `<ms>-*` explicit ID form."},
			{"8.2.0", "Added the `KEEPREF`, `DELREF` and `ACKED` options."},
			{"8.6.0", "Added the `IDMP` and `IDMPAUTO` options."},
		},
		Arity: -5, Flags: Write | DenyOOM | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{
			keyArg("key"),
			word("NOMKSTREAM").opt().since("6.2.0"),
			streamRefsArg.opt().since("8.2.0"),
			oneOf("idempotence", stringArg("producer-id").after("IDMPAUTO"),
				block("idmp", stringArg("producer-id"), stringArg("idempotent-id")).after(
					"IDMP")).opt().since("8.6.0"),
			streamTrimArg.opt(),
			oneOf("id-selector", Arg{Name: "auto-id", Type: ArgToken, Token: "*"}, stringArg("id")),
			block("data", stringArg("field"), stringArg("value")).many(),
		},
		Tips: []string{tipRandom},
		Run:  runXAdd,
	},
	{
		Name: "XTRIM", Group: StreamGroup, Since: "5.0.0",
		Summary:    "Removes the oldest entries of a stream.",
		Complexity: "O(N) in the entries that are removed.",
		History: [][2]string{
			{"6.2.0", "Added the `MINID` trimming strategy and the `LIMIT` option."},
			{"8.2.0", "Added the `KEEPREF`, `DELREF` and `ACKED` options."},
		},
		Arity: -4, Flags: Write,
		Keys: []KeySpec{Key(1, RW|Delete)},
		Args: []Arg{keyArg("key"), streamTrimArg, streamRefsArg.opt().since("8.2.0")},
		Tips: []string{tipRandom},
		Run:  runXTrim,
	},
}

var (
	eventXAdd  = streamEvent("xadd")
	eventXTrim = streamEvent("xtrim")
)

// The errors of XADD.
const (
	errAddZero       Error = "ERR The ID specified in XADD must be greater than 0-0"
	errAddID         Error = "ERR The ID specified in XADD is equal or smaller than the target stream top item"
	errAddFull       Error = "ERR The stream has exhausted the last possible ID, unable to add more items"
	errAddLarge      Error = "ERR Elements are too large to be stored"
	errProducers     Error = "ERR syntax error, IDMP/IDMPAUTO specified multiple times"
	errProducerAuto  Error = "ERR syntax error, IDMPAUTO requires a non-empty producer ID"
	errProducer      Error = "ERR syntax error, IDMP requires a non-empty producer ID"
	errIdempotent    Error = "ERR syntax error, IDMP requires a non-empty idempotent ID"
	errIdempotenceID Error = "ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs"
)

// maxEntry bounds the bytes of an entry's fields and values.
const maxEntry = 1 << 30

// streamAdd contains the arguments of XADD between the key and the fields.
type streamAdd struct {
	trim     streamTrim
	noCreate bool
	producer []byte // nil: the addition is not idempotent
	iid      []byte // nil: made from the fields
	id       object.StreamID
	given    bool // the ID, its milliseconds at least
	seq      bool // the ID's sequence number is given too
}

// parse reads the arguments up to the ID. Without an ID the arguments end.
func (o *streamAdd) parse(a *Cursor, nodeEntries int64) error {
	for done := false; a.More() && !done; {
		more := a.Len() - 1
		switch {
		case len(upToNUL(a.args[0])) == 1 && a.args[0][0] == '*':
			a.Bytes()
			done = true
		case o.trim.option(a):
		case a.Word("NOMKSTREAM"):
			o.noCreate = true
		case more >= 1 && a.Word("IDMPAUTO"):
			o.producerID(a, errProducerAuto)
		case more >= 2 && a.Word("IDMP"):
			o.producerID(a, errProducer)
			if o.iid = a.Bytes(); len(o.iid) == 0 {
				a.Fail(errIdempotent)
			}
		default:
			o.entryID(a)
			done = true
		}
	}
	if a.Err() == nil {
		a.Fail(o.trim.complete(nodeEntries))
	}
	return a.Err()
}

func (o *streamAdd) producerID(a *Cursor, empty Error) {
	if o.producer != nil {
		a.Fail(errProducers)
	}
	if o.producer = a.Bytes(); len(o.producer) == 0 {
		a.Fail(empty)
	}
}

// entryID takes a whole ID, or the milliseconds of an ID with '*' as the sequence number.
func (o *streamAdd) entryID(a *Cursor) {
	b := a.Bytes()
	o.given, o.seq = true, true
	if ms, seq, _ := bytes.Cut(upToNUL(b), []byte("-")); len(b) <= maxStreamID &&
		string(seq) == "*" {
		b, o.seq = ms, false
	}
	var err error
	if o.id, err = streamID(b); err != nil {
		a.Fail(err)
	} else if o.producer != nil {
		a.Fail(errIdempotenceID)
	}
}

// next returns the ID of a new entry after the entry last. It returns an error if there is no such
// ID.
func (o *streamAdd) next(last object.StreamID, now int64) (object.StreamID, error) {
	id, fits := o.id, true
	switch {
	case last == object.MaxStreamID:
		return id, errAddFull
	case o.given && o.seq:
	case o.given && id.Ms == last.Ms:
		id, fits = object.StreamID{Ms: id.Ms, Seq: last.Seq + 1}, last.Seq < math.MaxUint64
	case o.given:
	case uint64(now) > last.Ms:
		id = object.StreamID{Ms: uint64(now)}
	default:
		id, _ = last.Next()
	}
	if !fits || id.Compare(last) <= 0 {
		return id, errAddID
	}
	return id, nil
}

func runXAdd(c *Ctx) error {
	var o streamAdd
	a := c.Cursor(2)
	if err := o.parse(&a, c.streamNodeEntries()); err != nil {
		return err
	}
	fields := a.args
	switch {
	case len(fields) < 2 || len(fields)%2 == 1:
		return errArity(c.Spec.full)
	case o.given && o.seq && o.id == object.StreamID{}:
		return errAddZero
	}
	k, now := c.Keys[0], c.Txn.Now()
	s, err := c.Txn.Stream(k)
	if err != nil {
		return err
	}
	switch {
	case o.noCreate && !s.Exists():
		c.Out.Null()
		return nil
	case o.trim.offloads(c, s.Value()):
		return errOffload
	}
	if err := c.haveTrimmed(&s, &o.trim, 1); err != nil {
		return err
	}
	if o.producer != nil {
		if o.iid == nil {
			o.iid = fieldsHash(fields)
		}
		if id, known := c.knownEntry(&s, o.producer, o.iid); known {
			c.streamID(id)
			return nil
		}
	}
	id, err := o.next(s.Value().LastID(), now)
	if err == nil && argBytes(fields) > maxEntry {
		err = errAddLarge
	}
	if err != nil {
		return err
	}
	s.Add(id, fields)
	if o.producer != nil {
		_, most := idempotence(s.Value())
		s.AddIdempotent(o.producer, o.iid, id, most)
	}
	c.streamID(id)
	c.Txn.Notify(k, eventXAdd)
	if o.trim.of(&s) > 0 {
		c.Txn.Notify(k, eventXTrim)
	}
	return nil
}

// fieldsHash returns a digest of an entry's fields and values that does not depend on their order.
func fieldsHash(fields [][]byte) []byte {
	var sum [4]uint64
	for i := 0; i+1 < len(fields); i += 2 {
		h := sha256.New()
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(fields[i])))
		h.Write(n[:])
		h.Write(fields[i])
		h.Write(fields[i+1])
		digest := h.Sum(nil)
		for j := range sum {
			sum[j] += binary.BigEndian.Uint64(digest[8*j:])
		}
	}
	var id []byte
	for _, part := range sum {
		id = binary.BigEndian.AppendUint64(id, part)
	}
	return id
}

// runXTrim replies with the number of removed entries. A stream without entries stays a key.
func runXTrim(c *Ctx) error {
	var trim streamTrim
	a := c.Cursor(2)
	for a.More() {
		if !trim.option(&a) {
			a.Fail(ErrSyntax)
		}
	}
	if a.Err() == nil && trim.by == 0 && trim.limit == 0 {
		a.Fail(errTrimNothing)
	}
	if a.Err() == nil {
		a.Fail(trim.complete(c.streamNodeEntries()))
	}
	if err := a.Err(); err != nil {
		return err
	}
	k := c.Keys[0]
	s, err := c.Txn.Stream(k)
	if err != nil {
		return err
	}
	if trim.offloads(c, s.Value()) {
		return errOffload
	}
	if err := c.haveTrimmed(&s, &trim, 0); err != nil {
		return err
	}
	n := trim.of(&s)
	if n > 0 {
		c.Txn.Notify(k, eventXTrim)
	}
	c.Out.Int(int64(n))
	return nil
}
