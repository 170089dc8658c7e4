package commands

// Scope says which data a call of a command may touch. Dispatch alone decides from the scope how
// the call runs:
//
//	scope      keys that it touches          other state                runs
//	ArgsOnly   none                          none                       inline
//	OwnClient  none                          its client; any with a lock inline
//	OnLoop     none                          any                        inline
//	KeysOnly   those that it declares        any with a lock            inline
//	Pinned     those that it declares, as    any with a lock            as a task
//	           they were when it began
//	Counts     how many there are            any                        inline
//	Unlocked   any, a shard at a time        any with a lock            as a task
//	AllKeys    any, all of them locked       any with a lock            inline
//	Global     any, all of them locked       any, on the loop           as a task, one at a time
//
// Inline is on the event loop's goroutine, with the shards of the keys locked. A task runs beside
// the loop, on any goroutine. State without a lock belongs to the loop: code of a Global task that
// uses it runs on the loop, while the task waits (Ctx.Call, Ctx.atLoop).
//
// While a Global task runs, calls of scope ArgsOnly and OwnClient run. Calls of scope KeysOnly run
// if the task does not have their keys. All other calls wait. A call of scope KeysOnly that would
// take too long on the loop runs as a task, too. If it writes, it is a Global task that has only
// its keys (Ctx.apart). Otherwise it is a Pinned task.
type Scope uint8

// The scopes. A call of a scope after KeysOnly makes its EXEC a global task.
const (
	_ Scope = iota // of a container, which does not run
	ArgsOnly
	OwnClient
	OnLoop
	KeysOnly
	Pinned
	Counts
	Unlocked
	AllKeys
	Global
)

// Lane is the pool in which a task of scope Unlocked runs. Tasks wait only for tasks of the same
// lane. So tasks of clients cannot block those of an operator, and tasks that wait for another
// server block no other tasks.
type Lane uint8

// The lanes, and their number.
const (
	OfClients Lane = iota
	OfOperators
	Elsewhere
	Lanes
)

// Lane returns the lane of the command's tasks.
func (s *Spec) Lane() Lane {
	switch {
	case s.Is(elsewhere):
		return Elsewhere
	case s.Is(Admin):
		return OfOperators
	}
	return OfClients
}

// wide reports whether the scope includes more than the keys that a call declares.
func (sc Scope) wide() bool { return sc > KeysOnly }

// lent reports whether a global task lets the loop run commands of this scope.
func (sc Scope) lent() bool { return sc == OwnClient || sc == OnLoop || sc == Counts }

// scope returns the scope of the call in c, which may depend on its arguments.
func (c *Ctx) scope() Scope {
	if c.Spec.Escalate != nil {
		return c.Spec.Escalate(c)
	}
	return c.Spec.Scope
}
