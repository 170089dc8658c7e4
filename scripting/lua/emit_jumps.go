package lua

// jump adds a jump instruction whose target is not known yet. Earlier jumps may have the next
// instruction as their target. As that is a jump now, they can go to its target directly. So jump
// returns a list of the new jump and these earlier ones, which all get the same target.
func (f *function) jump() jumps {
	pending := f.pending
	f.pending = noJumps
	at := f.emit(opJump, 0, 0, noJump)
	return f.joined(alone(at), pending)
}

// jumpBehind adds a jump after the test that was just added. Pending jumps do not join its list:
// they go to the test.
func (f *function) jumpBehind() int { return f.jump().first }

// joined returns a list with the jumps of both lists.
func (f *function) joined(list, more jumps) jumps {
	switch {
	case more == noJumps:
		return list
	case list == noJumps:
		return more
	}
	f.aim(list.last, more.first)
	return jumps{list.first, more.last}
}

// label marks the next instruction as a target of jumps and returns its place.
func (f *function) label() int {
	f.lastTarget = len(f.code)
	return len(f.code)
}

// follow returns the jump after the one at pc in its list; noJump: there is none.
func (f *function) follow(pc int) int {
	f.l.tick()
	offset := f.code[pc].jump()
	if offset == noJump {
		return noJump
	}
	return pc + 1 + offset
}

// aim makes the jump at pc go to target.
func (f *function) aim(pc, target int) {
	offset := target - (pc + 1)
	if offset > maxJump || offset < -maxJump {
		f.l.failHere("control structure too long")
	}
	f.setC(pc, offset)
}

// control returns the place of the instruction on which the jump at pc depends.
func (f *function) control(pc int) int {
	if pc >= 1 {
		switch f.code[pc-1].op() {
		case opEq, opEqRK, opLt, opLtRK, opLtKR, opLe, opLeRK, opLeKR, opTest, opTestSet:
			return pc - 1
		}
	}
	return pc
}

const noRegister = -1

// patchTest makes the test before a jump leave its value in a register, or leave none. It returns
// false if the test has no value.
func (f *function) patchTest(pc, register int) bool {
	at := f.control(pc)
	i := f.code[at]
	if i.op() != opTestSet {
		return false
	}
	if register != noRegister && register != i.b() {
		f.setA(at, register)
	} else {
		f.code[at] = encode(opTest, i.b(), 0, i.c())
	}
	return true
}

// needsValue reports whether the list has a jump that leaves no value.
func (f *function) needsValue(list jumps) bool {
	for at := list.first; at != noJump; at = f.follow(at) {
		if f.code[f.control(at)].op() != opTestSet {
			return true
		}
	}
	return false
}

func (f *function) dropValues(list jumps) {
	for at := list.first; at != noJump; at = f.follow(at) {
		f.patchTest(at, noRegister)
	}
}

// patchTests sets the targets of the jumps of a list. A jump whose test can put its value into
// register goes to valued. The other jumps go to target.
func (f *function) patchTests(list jumps, valued, register, target int) {
	for at := list.first; at != noJump; {
		next := f.follow(at)
		if f.patchTest(at, register) {
			f.aim(at, valued)
		} else {
			f.aim(at, target)
		}
		at = next
	}
}

// patch makes the jumps of a list go to target.
func (f *function) patch(list jumps, target int) {
	if target == len(f.code) {
		f.patchHere(list)
		return
	}
	f.patchTests(list, target, noRegister, target)
}

// patchHere makes the jumps of a list go to the next instruction.
func (f *function) patchHere(list jumps) {
	f.label()
	f.pending = f.joined(f.pending, list)
}
