package sinks

import (
	"errors"
	"fmt"
	"time"
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
	Kind  Kind
	After time.Duration // Throttled: no attempt before this much time has passed
	Items []int         // Rejected: indexes into Batch.Items; empty when unknown
	Err   error         // what happened, without secrets
}

func (f *Failure) Error() string { return f.Err.Error() }

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
