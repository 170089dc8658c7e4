package commands

import (
	"strconv"
	"strings"

	"keyp/storage"
	"keyp/storage/object"
)

const (
	errOptionType     Error = "ERR TYPE is string, list, set, zset, hash, stream, lease, limit or delay"
	errOptionDatabase Error = "ERR DB index is out of range"
)

// options reads the options of Keyp's own commands by one rule. Each option may be given only once,
// and alternatives exclude each other. An error names the wrong option. Redis's commands read their
// options with a Cursor, because each has rules of its own.
type options struct {
	Cursor
	given []givenOption
}

// givenOption is a word that is not allowed any more, because the word by was given.
type givenOption struct{ word, by string }

// option takes the next argument if it is word. After it, values arguments must follow. Neither
// word nor one of its alternatives may have been given before.
func (o *options) option(word string, values int, alternatives ...string) bool {
	if !o.More() || !isWord(o.args[0], word) {
		return false
	}
	o.refuseGiven()
	o.given = append(o.given, givenOption{word, word})
	for _, other := range alternatives {
		o.given = append(o.given, givenOption{other, word})
	}
	return o.part(word, values) || o.err != nil
}

// refuseGiven fails if the next argument, or an alternative of it, was given already.
func (o *options) refuseGiven() {
	for _, g := range o.given {
		switch {
		case !isWord(o.args[0], g.word):
		case g.word == g.by:
			o.Fail(Error("ERR " + g.word + " is given twice"))
		default:
			o.Fail(Error("ERR " + g.by + " and " + g.word + " exclude each other"))
		}
	}
}

// part is option for a word that may be repeated.
func (o *options) part(word string, values int) bool {
	if !o.Word(word) {
		return false
	}
	switch {
	case o.Len() >= values:
	case values == 1:
		o.Fail(Error("ERR " + word + " needs a value"))
	default:
		o.Fail(Error("ERR " + word + " needs " + strconv.Itoa(values) + " values"))
	}
	return true
}

// end fails if an argument is left, because it is no option of the command.
func (o *options) end() {
	if !o.More() {
		return
	}
	o.refuseGiven()
	o.Fail(Error("ERR syntax error: '" + clip(o.args[0], 128) + "' is no option here"))
}

// typeName takes a type as TYPE replies it.
func (o *options) typeName() object.Type {
	name := string(o.Bytes())
	for _, t := range storage.Types {
		if strings.EqualFold(t.String(), name) {
			return t
		}
	}
	o.Fail(errOptionType)
	return object.None
}

// database takes the number of a database.
func (o *options) database(e *Env) int {
	db := int(o.IntFrom(0, errOptionDatabase))
	if !e.database(db) {
		o.Fail(errOptionDatabase)
	}
	return db
}
