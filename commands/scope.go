package commands

// Scope says what data a call may touch. From that, Dispatch alone decides how the call runs:
//
//	scope      of keys                       of the server              runs
//	ArgsOnly   none                          nothing                    inline
//	OwnClient  none                          its client, what has locks inline
//	OnLoop     none                          what belongs to the loop   inline
//	KeysOnly   those that it declares        what has locks             inline
//	Pinned     the values that these had     what has locks             a task, as Spec.Offload says
//	Counts     how many there are            what belongs to the loop   inline
//	Unlocked   any, a shard at a time        what has locks             a task
//	AllKeys    any, all of them locked       what has locks             inline
//	Global     any, all of them locked       what belongs to the loop,  a task, one at a time
//	                                         by Ctx.Call and Ctx.atLoop
//	Global, Ctx.apart: those that it declares                           a task, as errOffload says
//
// Inline is on the loop's goroutine, with the shards of the keys locked. While a global task runs,
// calls of scope ArgsOnly and OwnClient run. Calls of scope KeysOnly run if the task does not have
// their keys; all others wait. Within a global task, code that belongs to the loop runs on the loop
// (lent), and all other code on the goroutine of the task.
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
