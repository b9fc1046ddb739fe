// Package delta turns the runs of an audit into changes. An audit repeats every
// standing violation in each of its runs, once a minute by default; a Tracker tells
// which ones are new (opened), which are gone (resolved), and now and then repeats
// those that stand (snapshot).
//
//	violation.go  what makes two violations the same one
//	tracker.go    the state between runs
//	run.go        one run: what is observed, what follows from it
//	store.go      the state on disk
//
// # The records
//
//	{"eventType":"docket.audit.opened","id":"<run>","key":"<hex>","violation":<the line's bytes>}
//	{"eventType":"docket.audit.snapshot","id":"<run>","key":"<hex>","opened":"<run>","violation":<the line's bytes>}
//	{"eventType":"docket.audit.resolved","id":"<run>","key":"<hex>","opened":"<run>","violation":{<identifying members>}}
//
// "key" is the same for one violation in all its records. Two violations are the same
// one if they agree in the constraint (group, kind, name), the enforcement action, the
// resource (group, version, kind, namespace, name) and the message; several of them in
// one run count as one, whose details are those of the first.
//
// # What can be relied on
//
//   - Only a run that is proven whole resolves anything: what an incomplete run lacks
//     may stand all the same. A run that is older than the one before it, read late,
//     resolves nothing either, nor does one with a violation that cannot be read.
//   - The state on disk changes in Commit alone. Until then the lines of a run give the
//     same records again whenever they are read again, in number and order, so that
//     their numbers in a numbered session mean the same. What a run gives depends on
//     that state, its lines and its id, and on no clock: a changed interval between
//     snapshots holds from the run after the next Commit on.
//   - A run that was committed gives nothing when it is read again.
//   - A violation that cannot be tracked is sent as it came, in every run, and is never
//     called resolved.
//   - A snapshot is due when the run's id is one interval after that of the last one. In
//     a complete run with a snapshot every standing violation has one record: snapshot
//     or opened. An incomplete run may have sent some of them; it is made up for by a
//     later run, at most retries times in an interval.
//
// # What it costs
//
// A standing violation takes 40 to 80 bytes of memory, at most maxStanding times: its
// identifying members are on disk alone, some 300 bytes each. Each run writes them to a new
// file while it is observed.
package delta
