package commands

import "strings"

// The grammar describes a command's arguments for COMMAND DOCS; it does not parse them. Handlers
// read options with a Cursor, since the grammar does not contain all of Redis's rules:
//
//   - whether an option may be repeated, and whether the last one then counts (SET, HSETEX, LMPOP);
//   - which of two alternatives wins, or with which error both fail (SORT, ZADD, EXPIRE, LCS);
//   - whether a wrong number fails at once (COPY, LPOS) or only after the options that follow it
//     have been read (SET, GETEX).
//
// Options that several commands share are declared and read from one table: expiryOptions,
// compareOptions.

// The following functions construct the argument grammar of a declaration, which reads like a
// synopsis: Args{keyArg("key"), intArg("seconds"), oneOf("condition", word("NX"), …).opt()}.

func keyArg(name string) Arg     { return Arg{Name: name, Type: ArgKey} }
func stringArg(name string) Arg  { return Arg{Name: name, Type: ArgString} }
func intArg(name string) Arg     { return Arg{Name: name, Type: ArgInteger} }
func doubleArg(name string) Arg  { return Arg{Name: name, Type: ArgDouble} }
func patternArg(name string) Arg { return Arg{Name: name, Type: ArgPattern} }
func unixArg(name string) Arg    { return Arg{Name: name, Type: ArgUnix} }

// word returns an argument that is the word itself.
func word(token string) Arg {
	return Arg{Name: strings.ToLower(token), Type: ArgToken, Token: token}
}

func oneOf(name string, args ...Arg) Arg { return Arg{Name: name, Type: ArgOneOf, Args: args} }
func block(name string, args ...Arg) Arg { return Arg{Name: name, Type: ArgBlock, Args: args} }

// after returns the argument with a word in front of it.
func (a Arg) after(token string) Arg {
	a.Token = token
	return a
}

func (a Arg) opt() Arg {
	a.Optional = true
	return a
}

func (a Arg) many() Arg {
	a.Multiple = true
	return a
}

// manyTimes is like many, but each argument has the word in front of it.
func (a Arg) manyTimes() Arg {
	a.Multiple, a.Repeats = true, true
	return a
}

// of sets the key specification to which the argument belongs, counted from 1.
func (a Arg) of(keySpec int) Arg {
	a.KeySpec = keySpec
	return a
}

func (a Arg) since(version string) Arg {
	a.Since = version
	return a
}
