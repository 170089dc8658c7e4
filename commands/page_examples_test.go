package commands

// docs/reference/commands.md has an example session for each of Keyp's own commands. noExample
// lists the commands without one, each with a description of its reply.
var noExample = map[string]string{
	"KEYP.OUTBOX LIST":   "an array of what GET replies",
	"KEYP.POLICY LIST":   "an array of what GET replies",
	"KEYP.BACKUP BEGIN":  "a map: id, lsn, time, size, log, keys, deadlines",
	"KEYP.BACKUP READ":   "a piece of the backup, nil after the last one",
	"KEYP.BACKUP RESUME": "what BEGIN replied",
	"KEYP.BACKUP END":    "OK",
}

// keypExamples are the sessions for the page of commands, by heading. Each of Keyp's own commands
// occurs in one of them.
var keypExamples = []struct{ title, session string }{
	{"CL.THROTTLE", `
> CL.THROTTLE user:7 2 60 60
> CL.THROTTLE user:7 2 60 60 5
`},
	{"KEYP.CLOCK", `
> KEYP.CLOCK INFO
> KEYP.CLOCK CONFIRM
`},
	{"KEYP.DELAY", `
> KEYP.DELAY ADD mails a 0 "to Ann"
> KEYP.DELAY ADD mails b 2524608000000 "to Bob"
> KEYP.DELAY POP mails VISIBILITY 30s
> KEYP.DELAY EXTEND mails 1700000000000001-a 1m
> KEYP.DELAY NACK mails 1700000000000001-a DELAY 5s
(6s later)
> KEYP.DELAY POP mails VISIBILITY 30s
> KEYP.DELAY RANGE mails - +
> KEYP.DELAY ACK mails 1700000000000002-a
> KEYP.DELAY RESCHEDULE mails b 2524608060000
> KEYP.DELAY LEN mails
> KEYP.DELAY INFO mails
> KEYP.DELAY CANCEL mails b
`},
	{"KEYP.EXPIRING", `
> SET session:1 Ann EX 20
> SET session:2 Bob EX 10
> SET name Keyp
> KEYP.EXPIRING 1700000000000 1700000060000
> KEYP.TIMELINE 1700000000000 1700000040000 4
> KEYP.UNTIMED
`},
	{"KEYP.LEASE", `
> KEYP.LEASE ACQUIRE report worker-1 30s
> KEYP.LEASE CHECK report 1700000000000001
> KEYP.LEASE RENEW report 1700000000000001 1m
> KEYP.LEASE INFO report
> KEYP.LEASE RELEASE report 1700000000000001
`},
	{"KEYP.LIMIT", `
> KEYP.LIMIT TAKE api 1 TOKENS 10 5 1s
> KEYP.LIMIT PEEK api 10 TOKENS 10 5 1s
> KEYP.LIMIT TAKE api 2 TOKENS 10 5 1s RESERVE r1 30s
> KEYP.LIMIT HELD api
> KEYP.LIMIT RETURN api r1
> KEYP.LIMIT TAKE api 2 TOKENS 10 5 1s RESERVE r2 30s
> KEYP.LIMIT CONFIRM api r2
> KEYP.LIMIT INFO api
> KEYP.LIMIT RESET api
`},
	{"KEYP.OUTBOX", `
> KEYP.OUTBOX SET carts PATTERN cart:* STREAM expired VALUE 100
> KEYP.OUTBOX GET carts
> KEYP.OUTBOX STREAMS carts
> KEYP.OUTBOX DEL carts
`},
	{"KEYP.POLICY", `
> KEYP.POLICY SET sessions PATTERN session:* ENFORCE DEFAULT 30m
> KEYP.POLICY TEST session:1
> SET session:1 Ann
> KEYP.POLICY APPLY sessions
> KEYP.POLICY GET sessions
> KEYP.POLICY DEL sessions
`},
}
