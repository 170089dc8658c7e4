package lua

import (
	"sync/atomic"
	"unsafe"
)

// Program is a compiled chunk. It never changes.
type Program struct {
	main  *proto
	name  string // as errors show it
	bytes int64
	owner *State // the state that compiled it for itself, which counts it; nil: shared
	mark  uint8  // the owner's
}

// Bytes returns the memory of the program, in bytes.
func (p *Program) Bytes() int64 { return p.bytes }

// CompileOptions bound a compilation.
type CompileOptions struct {
	// Name is the name of the chunk. Errors show "@user_script" or "=user_script" as
	// user_script, and any other name as the program's text.
	Name string
	// Memory is the memory limit of the compilation, in bytes; 0 means no limit.
	Memory int64
	owner  *State
	levels int // nested calls around the compilation
	// Stop ends the compilation with ErrStopped soon after it has become true. It may be nil.
	Stop *atomic.Bool
}

// instruction is one step of a function.
//
//	bits  0-7   the operation
//	      8-15  A, a register
//	     16-31  B, a register or a small number
//	     32-63  C, a register, a constant's number, or how far to jump
//
// R[x] is a register, K[x] a constant. RK[x] is register x, or a constant where x is constantB
// (for B) or constantC (for C) or more.
type instruction uint64

type opcode uint8

const (
	opMove      opcode = iota // R[A] = R[B]
	opLoadK                   // R[A] = K[C]
	opLoadBool                // R[A] = B != 0; skip the next if C != 0
	opLoadNil                 // R[A] to R[B] = nil
	opGetUpval                // R[A] = upvalue B
	opSetUpval                // upvalue B = R[A]
	opGetGlobal               // R[A] = global K[C]
	opSetGlobal               // global K[C] = R[A]
	opGetTable                // R[A] = R[B][R[C]]
	opGetField                // R[A] = R[B][K[C]], a string
	opGetConst                // R[A] = R[B][K[C]], no string
	opSetTable                // R[A][RK[B]] = RK[C]
	opSetField                // R[A][K[C]] = RK[B], K[C] a string
	// R[A] = {} with room for B elements and C others, as floating point bytes.
	opNewTable
	opSelf // R[A+1] = R[B]; R[A] = R[B][K[C]], a string
	opAdd  // R[A] = R[B] + R[C]
	opSub
	opMul
	opDiv
	opMod
	opPow
	opAddRK // R[A] = R[B] + K[C]
	opSubRK
	opMulRK
	opDivRK
	opModRK
	opPowRK
	opAddKR // R[A] = K[C] + R[B]
	opSubKR
	opMulKR
	opDivKR
	opModKR
	opPowKR
	opUnm      // R[A] = -R[B]
	opNot      // R[A] = not R[B]
	opLen      // R[A] = #R[B]
	opConcat   // R[A] = R[B] .. … .. R[C]
	opJump     // go C further
	opEq       // unless (R[B] == R[C]) == A skip the next, which is a jump
	opEqRK     // the same with R[B] and K[C]
	opLt       // R[B] < R[C]
	opLtRK     // R[B] < K[C]
	opLtKR     // K[C] < R[B]
	opLe       // R[B] <= R[C]
	opLeRK     // R[B] <= K[C]
	opLeKR     // K[C] <= R[B]
	opTest     // unless R[A] is as true as C skip the next, which is a jump
	opTestSet  // if R[B] is as true as C then R[A] = R[B], else skip the next, which is a jump
	opCall     // R[A] … = R[A](R[A+1] …): B-1 arguments, C-1 results; 0: up to the top
	opTailCall // return R[A](R[A+1] …): B-1 arguments
	opReturn   // return R[A] …: B-1 values; 0: up to the top
	opForLoop  // R[A] += R[A+2]; if R[A] is not beyond R[A+1] then R[A+3] = R[A], go C further
	opForPrep  // R[A] -= R[A+2]; go C further
	opForCall  // R[A+3] … = R[A](R[A+1], R[A+2]), C results
	opForEach  // if R[A+3] is not nil then R[A+2] = R[A+3], go C further
	opSetList  // R[A][(C-1)*50 + i] = R[A+i], 1 ≤ i ≤ B; B 0: up to the top
	opClose    // close the variables from R[A] on
	opClosure  // R[A] = function C
	opVararg   // R[A] … = …: B-1 values; 0: all
)

const (
	constantB   = 1 << 8 // RK[B] from here on is a constant
	maxB        = 1<<16 - 1
	constantC   = 1 << 31 // RK[C] from here on is a constant
	listBatch   = 50      // elements of one opSetList
	maxRegister = 250
)

func encode(op opcode, a, b, c int) instruction {
	return instruction(op) | instruction(uint8(a))<<8 | instruction(uint16(b))<<16 | instruction(
		uint32(int32(c)))<<32
}

func (i instruction) op() opcode { return opcode(i) }
func (i instruction) a() int     { return int(uint8(i >> 8)) }
func (i instruction) b() int     { return int(uint16(i >> 16)) }
func (i instruction) c() int     { return int(uint32(i >> 32)) }
func (i instruction) jump() int  { return int(int32(i >> 32)) }

// proto is a compiled function.
type proto struct {
	program   *Program
	code      []instruction
	lines     []int32 // of each instruction
	constants []Value
	protos    []*proto
	upvalues  []upvalueInfo
	locals    []localInfo
	params    int
	maxStack  int
	vararg    bool
	needsArg  bool // it has "..." and does not use it: there is a variable arg
	firstLine int32
	lastLine  int32
}

// upvalueInfo describes an upvalue of a closure: it is a register of the function that makes the
// closure, or one of that function's upvalues.
type upvalueInfo struct {
	name  *String
	local bool
	index uint8
}

// localInfo is a local variable, which is in use from instruction from up to but excluding to. The
// variables in use occupy the registers in the order of the list.
type localInfo struct {
	name     *String
	from, to int32
}

const (
	protoSize       = int64(unsafe.Sizeof(proto{}))
	upvalueInfoSize = int64(unsafe.Sizeof(upvalueInfo{}))
	localInfoSize   = int64(unsafe.Sizeof(localInfo{}))
	instructionSize = int64(unsafe.Sizeof(instruction(0)) + unsafe.Sizeof(int32(0)))
)

func (p *proto) line(pc int) int {
	if pc < 0 || pc >= len(p.lines) {
		return 0
	}
	return int(p.lines[pc])
}
