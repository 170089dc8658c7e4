package commands

import (
	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

var hashGetExCommands = []Spec{
	{
		Name: "HGETEX", Group: HashGroup, Since: "8.0.0",
		Summary:    "Replies the values of fields of a hash and changes the fields' time to live.",
		Complexity: "O(N) in the number of fields named.",
		Arity:      -5, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Access|Update)},
		Args: []Arg{keyArg("key"), expiryArgs(word("PERSIST")), fieldsArg},
		Run:  runHGetEx,
	},
	{
		Name: "HSETEX", Group: HashGroup, Since: "8.0.0",
		Summary:    "Sets fields of a hash with a time to live and conditions if asked, all of them or none.",
		Complexity: "O(N) in the number of fields set.",
		Arity:      -6, Flags: Write | DenyOOM | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{
			keyArg("key"),
			oneOf("condition", word("FNX"), word("FXX")).opt(),
			expiryArgs(word("KEEPTTL")),
			block("fields",
				intArg("numfields"),
				block("data", stringArg("field"), stringArg("value")).many(),
			).after("FIELDS"),
		},
		Run: runHSetEx,
	},
	{
		Name: "HGETDEL", Group: HashGroup, Since: "8.0.0",
		Summary:    "Replies the values of fields of a hash and deletes the fields.",
		Complexity: "O(N) in the number of fields named.",
		Arity:      -5, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Access|Delete)},
		Args: []Arg{keyArg("key"), fieldsArg},
		Run:  changing((*storage.Txn).Hash, getAndDelete),
	},
}

const (
	errFieldsNumber  Error = "ERR invalid number of fields"
	errExpireMissing Error = "ERR missing expire time"
	errHGetExTwice   Error = "ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified"
	errHSetExTwice   Error = "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified"
	errFieldsExist   Error = "ERR Only one of FXX or FNX arguments can be specified"
)

// fieldExistence is the condition of HSETEX on whether its fields exist.
type fieldExistence uint8

const (
	fieldsAny     fieldExistence = iota
	fieldsMissing                // FNX
	fieldsExist                  // FXX
)

// fieldOptions are the arguments of HGETEX and HSETEX after the key.
type fieldOptions struct {
	fields    [][]byte // HSETEX: fields and values in turn
	condition fieldExistence
	timed     bool // EX, PX, EXAT or PXAT: give the fields deadline
	deadline  ttl.Deadline
	other     bool // PERSIST of HGETEX, KEEPTTL of HSETEX
}

// fieldSyntax describes how the syntax of HGETEX differs from that of HSETEX.
type fieldSyntax struct {
	width      int    // arguments of a field
	conditions bool   // FNX and FXX
	other      string // the word that excludes a time
	twice      error
}

var (
	hGetExSyntax = &fieldSyntax{width: 1, other: "PERSIST", twice: errHGetExTwice}
	hSetExSyntax = &fieldSyntax{width: 2, conditions: true, other: "KEEPTTL", twice: errHSetExTwice}
)

// parseFieldOptions reads the options and the fields, in any order. Each may appear only once.
func parseFieldOptions(a Cursor, s *fieldSyntax, t *storage.Txn) (fieldOptions, error) {
	var o fieldOptions
	for a.More() {
		switch {
		case a.Word("FIELDS"):
			if o.fields != nil {
				a.Fail(errFieldsTwice)
			}
			o.fields = a.fields(s.width, &fieldsErrors{errArguments, errFieldsNumber, errArguments})
		case a.Word(s.other):
			o.expires(&a, s)
			o.other = true
		case s.conditions && a.Word("FNX"):
			o.only(&a, fieldsMissing)
		case s.conditions && a.Word("FXX"):
			o.only(&a, fieldsExist)
		case o.time(&a, s, t):
		default:
			a.Fail(errArgument(a.Bytes()))
		}
	}
	if o.fields == nil {
		a.Fail(errFieldsMissing)
	}
	return o, a.Err()
}

// expires fails if an earlier option has already determined the deadlines.
func (o *fieldOptions) expires(a *Cursor, s *fieldSyntax) {
	if o.timed || o.other {
		a.Fail(s.twice)
	}
}

func (o *fieldOptions) only(a *Cursor, condition fieldExistence) {
	if o.condition != fieldsAny {
		a.Fail(errFieldsExist)
	}
	o.condition = condition
}

// time takes an option with a time from a, if the next argument is one.
func (o *fieldOptions) time(a *Cursor, s *fieldSyntax, t *storage.Txn) bool {
	for i := range expiryOptions {
		e := &expiryOptions[i]
		if !a.Word(e.word) {
			continue
		}
		o.expires(a, s)
		if !a.More() {
			a.Fail(errExpireMissing)
		}
		n := a.Int()
		if a.Err() == nil {
			deadline, err := ttl.FieldDeadline(t.Now(), n, e.form.unit, e.form.base)
			if err != nil {
				a.Fail(err)
			}
			o.timed, o.deadline = true, deadline
		}
		return true
	}
	return false
}

func runHGetEx(c *Ctx) error {
	o, err := parseFieldOptions(c.Cursor(2), hGetExSyntax, c.Txn)
	if err != nil {
		return err
	}
	h, err := c.Txn.Hash(c.Keys[0])
	if err != nil {
		return err
	}
	ev := eventHPersist
	if o.timed {
		ev = c.fieldEvent(o.deadline)
	}
	c.answerFields(o.fields, ev, func(field []byte) (changed bool) {
		switch found := replyField(c.Out, h.Value(), field); {
		case found && o.other:
			return persistField(&h, field) == fieldChanged
		case found && o.timed:
			expireField(c, &h, field, o.deadline, 0)
			return true
		}
		return false
	})
	return nil
}

// holds reports whether the condition of HSETEX allows it to set its fields.
func (o *fieldOptions) holds(h *object.Hash) bool {
	for i := 0; i < len(o.fields) && o.condition != fieldsAny; i += 2 {
		if _, _, ok := h.Get(o.fields[i]); ok != (o.condition == fieldsExist) {
			return false
		}
	}
	return true
}

func runHSetEx(c *Ctx) error {
	o, err := parseFieldOptions(c.Cursor(2), hSetExSyntax, c.Txn)
	if err != nil {
		return err
	}
	k := c.Keys[0]
	h, err := c.Txn.Hash(k)
	if err != nil {
		return err
	}
	if !o.holds(h.Value()) {
		c.Out.Int(0)
		return nil
	}
	c.Out.Int(1)
	if o.timed && ttl.Expired(o.deadline.At, c.Txn.Now()) {
		o.deleteInstead(c, k, &h)
		return nil
	}
	h.Reserve(len(o.fields) / 2)
	for i := 0; i < len(o.fields); i += 2 {
		field, deadline := o.fields[i], o.deadline
		if o.other {
			_, deadline.At, _ = h.Value().Get(field)
		}
		h.Set(field, o.fields[i+1], deadline)
	}
	c.notifyPairs(k, eventHSet, o.fields)
	if o.timed {
		c.notifyPairs(k, eventHExpire, o.fields)
	}
	return nil
}

// deleteInstead handles an HSETEX whose deadline has passed. It deletes the fields and stores no
// new ones. Listeners get two events: the fields were set, and they were deleted at once.
func (o *fieldOptions) deleteInstead(c *Ctx, k storage.Key, h *storage.Hash) {
	existed := h.Exists()
	c.notifyPairs(k, eventHSet, o.fields)
	for i := 0; i < len(o.fields); i += 2 {
		h.Delete(o.fields[i])
		c.Txn.ReportPassedElement(k, object.TypeHash, o.fields[i], o.fields[i+1], o.deadline.At)
	}
	c.notifyPairs(k, eventHDel, o.fields)
	if !existed {
		c.Txn.Notify(k, storage.Deleted)
	}
}

func getAndDelete(c *Ctx, h storage.Hash) error {
	fields, err := onlyFields(c.Cursor(2))
	if err != nil {
		return err
	}
	c.answerFields(fields, eventHDel, func(field []byte) (changed bool) {
		return replyField(c.Out, h.Value(), field) && h.Delete(field)
	})
	return nil
}
