package lua

import (
	"strconv"
	"unsafe"
)

// The limits of C's Lua.
const (
	maxLevels   = 200 // of nested statements and expressions
	maxLocals   = 200
	maxUpvalues = 60
)

// function is a function that is being compiled.
type function struct {
	l          *lexer
	outer      *function
	block      *block
	code       []instruction
	lines      []int32
	constants  []Value
	protos     []*proto
	upvalues   []upvalueInfo
	locals     []localInfo
	active     []int // the local variables in scope, as indexes of locals; register i is the i-th
	declared   []int // local variables whose scope has not begun
	pending    jumps // those that go to the next instruction
	lastTarget int   // the last place that is jumped to
	free       int   // first free register
	maxStack   int
	params     int
	firstLine  int
	vararg     bool
	argTable   bool // there is a parameter arg
	usesDots   bool

	stringKeys map[*String]int
	numberKeys map[float64]int
	otherKeys  []int
}

// block is a scope.
type block struct {
	outer    *block
	active   int   // variables outside
	breaks   jumps // those that leave the loop
	captured bool
	loop     bool
}

// parser compiles in one pass over the tokens. It describes an expression (expr) until it is known
// where the value goes.
type parser struct {
	*lexer
	f       *function
	levels  int
	program *Program
}

func parse(source string, o *CompileOptions) (program *Program, err error) {
	l := &lexer{source: source, line: 1, lastLine: 1, name: chunkName(o.Name, shownCompiling),
		strings: map[string]*String{}, o: o}
	l.ahead.kind = tkNone
	defer func() {
		if p := recover(); p != nil {
			e, ok := p.(*syntaxError)
			if !ok {
				panic(p)
			}
			program, err = nil, e.err
		}
	}()
	p := &parser{lexer: l, levels: o.levels,
		program: &Program{name: chunkName(o.Name, shownRunning), owner: o.owner}}
	p.open(0)
	p.f.vararg = true
	l.next()
	p.chunk()
	if l.now.kind != tkEOF {
		p.expected(tkEOF)
	}
	p.program.main = p.close()
	p.program.bytes = l.used + roundBytes(int64(unsafe.Sizeof(Program{}))+
		int64(len(p.program.name)))
	if o.owner != nil {
		for _, s := range l.strings {
			s.shared = false
		}
	}
	return p.program, nil
}

// open begins a function.
func (p *parser) open(line int) {
	p.f = &function{l: p.lexer, outer: p.f, pending: noJumps, lastTarget: -1, maxStack: 2,
		firstLine: line}
}

// close ends a function.
func (p *parser) close() *proto {
	f := p.f
	p.endLocals(0)
	f.emit(opReturn, 0, 1, 0)
	p.use(roundBytes(protoSize) + int64(len(f.upvalues))*upvalueInfoSize +
		int64(len(f.locals))*localInfoSize + int64(len(f.protos))*8)
	for _, size := range []int64{int64(len(f.code)) * 8, int64(len(f.lines)) * 4,
		int64(len(f.constants)) * valueSize, int64(len(f.upvalues)) * upvalueInfoSize,
		int64(len(f.locals)) * localInfoSize, int64(len(f.protos)) * 8} {
		p.use(roundBytes(size) - size) // the allocator's part
	}
	p.f = f.outer
	return &proto{
		program: p.program, code: exactly(f.code), lines: exactly(f.lines),
		constants: exactly(f.constants),
		protos:    exactly(f.protos), upvalues: exactly(f.upvalues), locals: exactly(f.locals),
		params: f.params, maxStack: f.maxStack, vararg: f.vararg,
		needsArg:  f.argTable && !f.usesDots,
		firstLine: int32(f.firstLine), lastLine: int32(p.line),
	}
}

// exactly copies a slice, without the room that it grew by.
func exactly[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	t := make([]T, len(s))
	copy(t, s)
	return t
}

func (p *parser) expected(t token) { p.failHere("'" + t.String() + "' expected") }

// limit raises an error if n, the number of something in a function, exceeds most.
func (p *parser) limit(f *function, n, most int, what string) {
	if n <= most {
		return
	}
	where := "main function"
	if f.firstLine != 0 {
		where = "function at line " + strconv.Itoa(f.firstLine)
	}
	p.fail(where+" has more than "+strconv.Itoa(most)+" "+what, tkNone)
}

// accept skips the present token if it is t, and reports whether it did.
func (p *parser) accept(t token) bool {
	if p.now.kind != t {
		return false
	}
	p.next()
	return true
}

func (p *parser) want(t token) {
	if p.now.kind != t {
		p.expected(t)
	}
	p.next()
}

// match reads the token what, which closes the token who of a line. Any other token is an error.
func (p *parser) match(what, who token, line int) {
	if p.accept(what) {
		return
	}
	if line == p.line {
		p.expected(what)
	}
	p.failHere("'" + what.String() + "' expected (to close '" + who.String() + "' at line " +
		strconv.Itoa(line) + ")")
}

func (p *parser) nameHere() *String {
	if p.now.kind != tkName {
		p.expected(tkName)
	}
	s := p.now.text
	p.next()
	return s
}

func (p *parser) down() {
	if p.levels++; p.levels > maxLevels {
		p.fail("chunk has too many syntax levels", tkNone)
	}
}

func (p *parser) up() { p.levels-- }

// Variables

// declare declares a local variable, the i-th of those whose scopes begin together.
func (p *parser) declare(name *String, i int) {
	f := p.f
	p.limit(f, len(f.active)+i+1, maxLocals, "local variables")
	f.declared = append(f.declared[:i], len(f.locals))
	f.locals = append(f.locals, localInfo{name: name})
}

// begin begins the scope of n declared variables.
func (p *parser) begin(n int) {
	f := p.f
	for _, at := range f.declared[:n] {
		f.locals[at].from = int32(len(f.code))
		f.active = append(f.active, at)
	}
}

// endLocals ends the scope of all variables except the first n.
func (p *parser) endLocals(n int) {
	f := p.f
	for _, at := range f.active[n:] {
		f.locals[at].to = int32(len(f.code))
	}
	f.active = f.active[:n]
}

// find looks a variable up.
func (f *function) find(name *String, inner bool, e *expr) bool {
	if f == nil {
		return false
	}
	for i := len(f.active) - 1; i >= 0; i-- {
		if f.locals[f.active[i]].name == name {
			e.set(exLocal, i)
			if inner {
				b := f.block
				for b != nil && b.active > i {
					b = b.outer
				}
				if b != nil {
					b.captured = true
				}
			}
			return true
		}
	}
	if !f.outer.find(name, true, e) {
		return false
	}
	info := upvalueInfo{name: name, local: e.kind == exLocal, index: uint8(e.info)}
	for i, u := range f.upvalues {
		if u.local == info.local && u.index == info.index {
			e.set(exUpvalue, i)
			return true
		}
	}
	p := parser{lexer: f.l}
	p.limit(f, len(f.upvalues)+1, maxUpvalues, "upvalues")
	f.upvalues = append(f.upvalues, info)
	e.set(exUpvalue, len(f.upvalues)-1)
	return true
}

func (p *parser) variable(e *expr) {
	name := p.nameHere()
	if !p.f.find(name, false, e) {
		e.set(exGlobal, p.f.stringConstant(name))
	}
}

// Scopes

func (p *parser) enter(b *block, loop bool) {
	f := p.f
	*b = block{outer: f.block, active: len(f.active), breaks: noJumps, loop: loop}
	f.block = b
}

func (p *parser) leave() {
	f := p.f
	b := f.block
	f.block = b.outer
	p.endLocals(b.active)
	if b.captured {
		f.emit(opClose, b.active, 0, 0)
	}
	f.free = len(f.active)
	f.patchHere(b.breaks)
}

// scope compiles a block as a new scope.
func (p *parser) scope() {
	var b block
	p.enter(&b, false)
	p.chunk()
	p.leave()
}
