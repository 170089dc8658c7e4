package commands

import (
	"math/bits"

	"keyp/storage"
	"keyp/ttl"
)

var hashDeadlineCommands = []Spec{
	expireFieldsCommand("HEXPIRE", "Sets the time to live of fields of a hash in seconds.",
		&inSeconds),
	expireFieldsCommand("HPEXPIRE", "Sets the time to live of fields of a hash in milliseconds.",
		&inMilliseconds),
	expireFieldsCommand("HEXPIREAT",
		"Sets the deadline of fields of a hash, as a Unix time in seconds.", &atSeconds),
	expireFieldsCommand("HPEXPIREAT",
		"Sets the deadline of fields of a hash, as a Unix time in milliseconds.", &atMilliseconds),
	fieldTimeCommand("HTTL",
		"Replies the time to live of fields of a hash in seconds, -1 without one, -2 for a missing field.",
		func(deadline, now int64) int64 { return ttl.CeilSeconds(ttl.RemainingMS(deadline, now)) }),
	fieldTimeCommand("HPTTL",
		"Replies the time to live of fields of a hash in milliseconds, -1 without one, -2 for a missing field.",
		ttl.RemainingMS),
	fieldTimeCommand("HEXPIRETIME",
		"Replies the deadline of fields of a hash as a Unix time in seconds, -1 without one, -2 for a missing field.",
		func(deadline, now int64) int64 {
			return ttl.CeilSeconds(ttl.ExpireTimeMS(deadline, now))
		}),
	fieldTimeCommand("HPEXPIRETIME",
		"Replies the deadline of fields of a hash as a Unix time in milliseconds, -1 without one, -2 for a missing field.",
		ttl.ExpireTimeMS),
	{
		Name: "HPERSIST", Group: HashGroup, Since: "7.4.0",
		Summary:    "Takes away the deadlines of fields of a hash.",
		Complexity: "O(N) in the number of fields named.",
		Arity:      -5, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{keyArg("key"), fieldsArg},
		Run:  changing((*storage.Txn).Hash, persistFields),
	},
}

func expireFieldsCommand(name, summary string, form *timeForm) Spec {
	return Spec{
		Name: name, Group: HashGroup, Since: "7.4.0",
		Summary:    summary,
		Complexity: "O(N) in the number of fields named.",
		Arity:      -6, Flags: Write | DenyOOM | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{keyArg("key"), form.arg, expireConditions, fieldsArg},
		Run:  expireFields(form),
	}
}

// fieldTimeCommand declares a command that replies with the result of answer for each field.
func fieldTimeCommand(name, summary string, answer func(deadline, now int64) int64) Spec {
	return Spec{
		Name: name, Group: HashGroup, Since: "7.4.0",
		Summary:    summary,
		Complexity: "O(N) in the number of fields named.",
		Arity:      -5, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key"), fieldsArg},
		Run:  fieldTimes(answer),
	}
}

var fieldsArg = block("fields", intArg("numfields"), stringArg("field").many()).after("FIELDS")

var (
	eventHExpire  = hashEvent("hexpire")
	eventHPersist = hashEvent("hpersist")
)

const (
	errFieldsPlace    Error = "ERR Mandatory argument FIELDS is missing or not at the right position"
	errFieldsPositive Error = "ERR Number of fields must be a positive integer"
	errFieldsMatch    Error = "ERR The `numfields` parameter must match the number of arguments"
	errFieldsTwice    Error = "ERR FIELDS keyword specified multiple times"
	errFieldsMissing  Error = "ERR missing FIELDS argument"
	errFieldsFew      Error = "ERR FIELDS requires at least numfields and one field argument"
	errNumFields      Error = "ERR Parameter `numFields` should be greater than 0"
	errArguments      Error = "ERR wrong number of arguments"
	errConditions     Error = "ERR Multiple condition flags specified"
)

func errArgument(arg []byte) Error { return Error("ERR unknown argument: " + clip(arg, 128)) }

// The replies of HEXPIRE for a field. HPERSIST replies fieldMissing, fieldNoTTL or fieldChanged.
const (
	fieldMissing = -2
	fieldNoTTL   = -1 // HPERSIST: there was no deadline
	fieldRefused = 0  // the condition said no
	fieldChanged = 1
	fieldDeleted = 2 // the deadline had passed already
)

// onlyFields reads FIELDS, a number and as many fields. No other argument may follow.
func onlyFields(a Cursor) ([][]byte, error) {
	if !a.Word("FIELDS") {
		return nil, errFieldsPlace
	}
	if n := a.IntFrom(1, errFieldsPositive); n != int64(a.Len()) {
		a.Fail(errFieldsMatch)
	}
	return a.args, a.Err()
}

// fieldsErrors are the errors of a list of fields among options. none is for a missing list, and
// number for an invalid number of fields. short is for a list with fewer fields than its number.
type fieldsErrors struct{ none, number, short error }

// fields reads a number and as many fields, which follow the word FIELDS. Each field has width
// arguments.
func (a *Cursor) fields(width int, wrong *fieldsErrors) [][]byte {
	if a.Len() < 1+width {
		a.Fail(wrong.none)
	}
	n := a.IntFrom(1, wrong.number)
	switch {
	case n > maxFields:
		a.Fail(wrong.number)
	case n*int64(width) > int64(a.Len()):
		a.Fail(wrong.short)
	}
	if a.err != nil {
		return nil
	}
	list := a.args[:n*int64(width)]
	a.args = a.args[len(list):]
	return list
}

// maxFields is the largest number of fields that a command accepts.
const maxFields = 1<<31 - 1

// parseFieldExpiry reads the options after the time of HEXPIRE, in any order.
func parseFieldExpiry(a Cursor) (cond ttl.Condition, fields [][]byte, err error) {
	for a.More() {
		switch {
		case a.Word("FIELDS"):
			if fields != nil {
				a.Fail(errFieldsTwice)
			}
			fields = a.fields(1, &fieldsErrors{errFieldsFew, errNumFields, errArguments})
		case a.condition(&cond):
		default:
			a.Fail(errArgument(a.Bytes()))
		}
	}
	if fields == nil {
		a.Fail(errFieldsMissing)
	}
	if bits.OnesCount8(uint8(cond)) > 1 {
		a.Fail(errConditions)
	}
	return cond, fields, a.Err()
}

// expireFields returns a handler for one form of HEXPIRE. A deadline that has passed deletes the
// fields.
func expireFields(form *timeForm) func(*Ctx) error {
	return changing((*storage.Txn).Hash, func(c *Ctx, h storage.Hash) error {
		n, ok := ParseInt(c.Arg(2))
		if !ok {
			return ErrNotInteger
		}
		deadline, err := ttl.FieldDeadline(c.Txn.Now(), n, form.unit, form.base)
		if err != nil {
			return err
		}
		cond, fields, err := parseFieldExpiry(c.Cursor(3))
		if err != nil {
			return err
		}
		c.answerFields(fields, c.fieldEvent(deadline), func(field []byte) (changed bool) {
			code := expireField(c, &h, field, deadline, cond)
			c.Out.Int(code)
			return code > fieldRefused
		})
		return nil
	})
}

// answerFields replies with an array with the reply of answer for each field. If answer has changed
// a field, ev is raised for the command's first key.
func (c *Ctx) answerFields(fields [][]byte, ev storage.Event,
	answer func(field []byte) (changed bool)) {
	c.Out.Array(len(fields))
	c.notifyChanged(fields, ev, answer)
}

// notifyChanged calls change for each argument in list. It returns the number of calls that
// reported a change. If there was one, it raises ev for the command's first key, with the changed
// fields.
func (c *Ctx) notifyChanged(list [][]byte, ev storage.Event,
	change func(arg []byte) bool) (n int64) {
	var changed [][]byte
	hears := c.Txn.HearsFields(ev)
	for _, arg := range list {
		if !change(arg) {
			continue
		}
		if n++; hears {
			changed = append(changed, arg)
		}
	}
	if n > 0 {
		c.Txn.NotifyFields(c.Keys[0], ev, changed...)
	}
	return n
}

// fieldEvent returns the event for fields that get a deadline. If the deadline has passed, that is
// the event of deleted fields.
func (c *Ctx) fieldEvent(deadline ttl.Deadline) storage.Event {
	if ttl.Expired(deadline.At, c.Txn.Now()) {
		return eventHDel
	}
	return eventHExpire
}

func expireField(c *Ctx, h *storage.Hash, field []byte, deadline ttl.Deadline,
	cond ttl.Condition) int64 {
	_, old, ok := h.Value().Get(field)
	switch {
	case !ok:
		return fieldMissing
	case !cond.Allows(old, deadline.At):
		return fieldRefused
	case ttl.Expired(deadline.At, c.Txn.Now()):
		h.ReportPassed(field, deadline.At)
		h.Delete(field)
		return fieldDeleted
	}
	h.SetDeadline(field, deadline)
	return fieldChanged
}

// fieldTimes returns the handler of a command such as HTTL, which replies answer's number for each
// field.
func fieldTimes(answer func(deadline, now int64) int64) func(*Ctx) error {
	return func(c *Ctx) error {
		h, err := c.readHash(c.Keys[0])
		if err != nil {
			return err
		}
		fields, err := onlyFields(c.Cursor(2))
		if err != nil {
			return err
		}
		c.Out.Array(len(fields))
		for _, field := range fields {
			if _, deadline, ok := h.Get(field); ok {
				c.Out.Int(answer(deadline, c.Txn.Now()))
			} else {
				c.Out.Int(ttl.Missing)
			}
		}
		return nil
	}
}

func persistFields(c *Ctx, h storage.Hash) error {
	fields, err := onlyFields(c.Cursor(2))
	if err != nil {
		return err
	}
	c.answerFields(fields, eventHPersist, func(field []byte) (changed bool) {
		code := persistField(&h, field)
		c.Out.Int(code)
		return code == fieldChanged
	})
	return nil
}

func persistField(h *storage.Hash, field []byte) int64 {
	_, deadline, ok := h.Value().Get(field)
	switch {
	case !ok:
		return fieldMissing
	case deadline == ttl.None:
		return fieldNoTTL
	}
	h.SetDeadline(field, ttl.Deadline{})
	return fieldChanged
}
