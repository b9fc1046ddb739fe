package exporter

import (
	"maps"
	"sync"
	"time"
)

const (
	// allowanceBytes is what one peer of one source may have in the refused files at
	// once: some four thousand short lines, and an eighth of a file.
	allowanceBytes = 1 << 20
	// allowancePerSecond is what it may add: 64 MiB take it eighteen hours.
	allowancePerSecond = 1 << 10
	// maxAllowances bounds the peers that are told apart. Beyond them those of a source
	// share one allowance.
	maxAllowances = 1024
	// maxRepeated is the longest line that is remembered, so that it is written once
	// when it comes again.
	maxRepeated = 256
	// repeatWait is how long a run of equal lines goes on before it is written again.
	repeatWait = time.Minute
)

// refusedRate chooses which refused lines are kept. The first of a run of equal lines is
// kept at once, with how many of the run are known by then; those that follow later are
// one more entry, written when the run ends or repeatWait has passed. Lines that are
// neither written nor part of such an entry are counted as left out. The zero value is
// ready to use; its owner guards it.
type refusedRate struct {
	allowances map[sender]*allowance
	exceeded   []sender // whose lines are left out from now on; the owner says so

	// Apart from the owner's lock, which a disk that hangs may hold.
	counting sync.Mutex
	leftOut  map[string]uint64 // lines, by source; guarded by counting
}

// sender is a peer of a source.
type sender struct{ source, identity string }

// allowance bounds the bytes of a sender, and holds the run that it is in.
type allowance struct {
	bytes  float64 // less than 0: what was written last was more than was left
	at     time.Time
	isOver bool

	run   refusedLine // the newest; without a reason there is none to go on with
	since time.Time   // when lines of run were written last
	more  refusedLine // lines of run that are not written; without a reason there are none
}

// choose returns the lines to write, each run as one.
func (r *refusedRate) choose(lines []refusedLine, now time.Time) (chosen []refusedLine) {
	for len(lines) > 0 {
		var run refusedLine
		run, lines = firstRun(lines)
		a := r.of(&run, now)
		repeats := a.run.Reason != "" && run.repeats(&a.run)
		if repeats {
			a.gather(run)
		}
		if a.more.Reason != "" && (!repeats || now.Sub(a.since) >= repeatWait) {
			chosen = r.admit(chosen, a, a.gathered(now))
		}
		if !repeats {
			a.begin(run, now)
			chosen = r.admit(chosen, a, run)
		}
	}
	return chosen
}

// firstRun makes one of the equal lines at the front, and returns the others.
func firstRun(lines []refusedLine) (run refusedLine, rest []refusedLine) {
	run = lines[0]
	n := 1
	for n < len(lines) && lines[n].repeats(&run) {
		n++
	}
	if n > 1 {
		run.Count, run.LastNumber = uint64(n), lines[n-1].Number
	}
	return run, lines[n:]
}

// count is how many lines l stands for.
func (l *refusedLine) count() uint64 { return max(l.Count, 1) }

// begin makes run the one that may go on. A long line is not remembered.
func (a *allowance) begin(run refusedLine, now time.Time) {
	if a.run, a.since = run, now; len(run.text) > maxRepeated {
		a.run = refusedLine{}
	}
}

// gather notes that run goes on.
func (a *allowance) gather(run refusedLine) {
	if a.more.Reason == "" {
		a.more = run
		return
	}
	a.more.Count = a.more.count() + run.count()
	if a.more.LastNumber = run.LastNumber; run.Count == 0 {
		a.more.LastNumber = run.Number
	}
}

// gathered returns the lines that were gathered, and forgets them.
func (a *allowance) gathered(now time.Time) refusedLine {
	more := a.more
	a.more, a.since = refusedLine{}, now
	return more
}

// rest returns the gathered lines of runs that are going on.
func (r *refusedRate) rest() (lines []refusedLine) {
	for _, a := range r.allowances {
		if a.more.Reason != "" {
			lines = append(lines, a.gathered(a.since))
		}
	}
	return lines
}

// admit appends a line to those chosen, or counts it as left out.
func (r *refusedRate) admit(chosen []refusedLine, a *allowance, l refusedLine) []refusedLine {
	if a.bytes > 0 {
		a.bytes -= minRefusedBytes // or all of a batch would be admitted on the last byte
		return append(chosen, l)
	}
	r.leaveOut(&l)
	if !a.isOver {
		a.isOver = true
		r.exceeded = append(r.exceeded, sender{l.Source, l.identity})
	}
	return chosen
}

// minRefusedBytes is less than any entry takes.
const minRefusedBytes = 128

// leaveOut counts a line that is not kept.
func (r *refusedRate) leaveOut(l *refusedLine) {
	r.counting.Lock()
	defer r.counting.Unlock()
	if r.leftOut == nil {
		r.leftOut = make(map[string]uint64)
	}
	r.leftOut[l.Source] += l.count()
}

// linesLeftOut is how many refused lines of a source were counted and not kept since
// the start. Safe at any time.
func (r *refusedRate) linesLeftOut(source string) uint64 {
	r.counting.Lock()
	defer r.counting.Unlock()
	return r.leftOut[source]
}

// charge takes the size of l, as written, from its allowance.
func (r *refusedRate) charge(l *refusedLine, size int) {
	if a := r.allowances[r.senderOf(l)]; a != nil {
		a.bytes -= float64(max(0, size-minRefusedBytes))
	}
}

// of returns the allowance that l is written on.
func (r *refusedRate) of(l *refusedLine, now time.Time) *allowance {
	s := r.senderOf(l)
	a := r.allowances[s]
	if a == nil {
		if r.allowances == nil {
			r.allowances = make(map[sender]*allowance)
		}
		a = &allowance{bytes: allowanceBytes, at: now}
		r.allowances[s] = a
		return a
	}
	a.bytes = min(allowanceBytes, a.bytes+allowancePerSecond*max(0, now.Sub(a.at).Seconds()))
	a.at = now
	if a.bytes >= allowanceBytes/2 {
		a.isOver = false
	}
	return a
}

// senderOf is whose allowance l is written on.
func (r *refusedRate) senderOf(l *refusedLine) sender {
	s := sender{l.Source, l.identity}
	if r.allowances[s] != nil || len(r.allowances) < maxAllowances {
		return s
	}
	maps.DeleteFunc(r.allowances, func(_ sender, a *allowance) bool {
		return a.more.Reason == "" && time.Since(a.at) > allowanceBytes/allowancePerSecond*time.Second // it is full again
	})
	if len(r.allowances) < maxAllowances {
		return s
	}
	return sender{source: l.Source}
}
