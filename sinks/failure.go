package sinks

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Kind says what a failed Send means for the records in it.
type Kind uint8

// The four ways a destination can fail.
const (
	Transient     Kind = iota // try again soon: network trouble, 5xx
	Throttled                 // try again, no sooner than After
	Misconfigured             // an operator must act: 401, 403, 404. Keep the records, raise the alarm.
	Rejected                  // these records will never be taken: 400, 413, 422. Set them aside.
)

// String is the word for k in states, logs and metric labels.
func (k Kind) String() string {
	switch k {
	case Transient:
		return "Transient"
	case Throttled:
		return "Throttled"
	case Misconfigured:
		return "Misconfigured"
	case Rejected:
		return "Rejected"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Failure is how a sink reports anything other than Transient.
type Failure struct {
	Kind   Kind
	Reason string        // the word in states and logs where Kind says too little: Fenced; empty: that of Kind
	After  time.Duration // Throttled: no attempt before this much time has passed
	Items  []int         // Rejected: rising indexes into Batch.Items; empty when unknown
	Said   Answer        // Rejected: what the destination answered
	Taken  bool          // Rejected: the destination has accepted others of the batch in the same answer
	Each   []Answer      // Rejected: what it answered to each of Items; nil where it does not tell them apart
	Err    error         // what happened, without secrets
}

// Word is the reason of f in states and logs.
func (f *Failure) Word() string {
	if f.Reason != "" {
		return f.Reason
	}
	return f.Kind.String()
}

// Answer is what a destination said about a record that it rejects, in its own
// words and without secrets. It is kept with the dead letter.
type Answer struct {
	Status string // its code: "422", "MESSAGE_TOO_LARGE"; empty when there is none
	Text   string // at most MaxAnswerText bytes
}

// MaxAnswerText bounds Answer.Text: as much as a person reads of one answer.
const MaxAnswerText = 512

// AnswerText turns a destination's answer into one printable line of at most
// MaxAnswerText bytes. The caller removes secrets first.
func AnswerText(text string) string {
	const more = "..."
	// A rune shrinks to a bounded size, so a long text need not be read whole.
	cut := len(text) > 4*MaxAnswerText
	if cut {
		text = text[:4*MaxAnswerText]
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= MaxAnswerText && !cut {
		return text
	}
	return strings.ToValidUTF8(text[:min(len(text), MaxAnswerText-len(more))], "") + more
}

// Answer returns what the destination said of item i of the batch.
func (f *Failure) Answer(i int) Answer {
	if n, named := slices.BinarySearch(f.Items, i); named && n < len(f.Each) {
		return f.Each[n]
	}
	return f.Said
}

// Check returns f in a form that the delivery can rely on, for a batch of n items. It ignores
// Items that do not rise or lie outside of the batch.
func (f *Failure) Check(n int) *Failure {
	for i, item := range f.Items {
		if item < 0 || item >= n || i > 0 && item <= f.Items[i-1] {
			return &Failure{Kind: f.Kind, Reason: f.Reason, After: f.After, Said: f.Said, Err: f.Err}
		}
	}
	return f
}

func (f *Failure) Error() string {
	if f.Err == nil {
		return f.Kind.String()
	}
	return f.Err.Error()
}

func (f *Failure) Unwrap() error { return f.Err }

// Failf returns a *Failure of the given kind; format and args are as for
// fmt.Errorf.
func Failf(kind Kind, format string, args ...any) error {
	return &Failure{Kind: kind, Err: fmt.Errorf(format, args...)}
}

// FailureOf returns the *Failure that err is or wraps. Any other error counts as
// Transient: an unknown failure means retry, giving up needs a reason.
func FailureOf(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	return &Failure{Kind: Transient, Err: err}
}
