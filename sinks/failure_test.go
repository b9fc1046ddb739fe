package sinks

import (
	"errors"
	"testing"
)

// The reason of a failure stays with it, also where its items cannot be relied on, and stands
// for its kind in states and logs.
func TestFailureReason(t *testing.T) {
	f := &Failure{Kind: Misconfigured, Reason: Fenced, Items: []int{7}, Err: errors.New("another docket has begun")}
	if got := f.Check(2); got.Reason != Fenced || got.Items != nil {
		t.Errorf("Check = %+v, want the reason %s and no items", got, Fenced)
	}
	if got := f.Word(); got != Fenced {
		t.Errorf("Word = %s, want %s", got, Fenced)
	}
	if got := (&Failure{Kind: Throttled}).Word(); got != "Throttled" {
		t.Errorf("Word without a reason = %s, want that of the kind", got)
	}
}
