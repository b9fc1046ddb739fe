package kafkasink

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/sinks"
)

// The partitions of one batch can fail in different ways, and Send reports one.
func TestFailureOfSeveralPartitions(t *testing.T) {
	transient := result{err: sinks.Failf(sinks.Transient, "leader moved")}
	misconfigured := result{err: sinks.Failf(sinks.Misconfigured, "not permitted")}
	rejected := result{rejected: []*rejection{{7, "MESSAGE_TOO_LARGE", errors.New("too large")}}}
	alsoRejected := result{rejected: []*rejection{{2, "INVALID_TIMESTAMP", errors.New("too old")}}, accepted: []int{1}}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx     context.Context
		results []result
		want    sinks.Kind
		items   []int
		text    string
	}{
		"trouble that passes": {t.Context(), []result{{}, transient, {}}, sinks.Transient, nil, "leader moved"},
		"operator needed":     {t.Context(), []result{transient, misconfigured, transient}, sinks.Misconfigured, nil, "not permitted"},
		"final comes first":   {t.Context(), []result{misconfigured, rejected, transient}, sinks.Rejected, []int{7}, "too large"},
		"rejected twice":      {t.Context(), []result{rejected, alsoRejected}, sinks.Rejected, []int{2, 7}, "too old"},
		"cancelled":           {cancelled, []result{misconfigured}, sinks.Transient, nil, "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			var all result
			for _, r := range test.results {
				all.merge(r)
			}
			f := sinks.FailureOf(all.failure(test.ctx))
			if f.Kind != test.want || !slices.Equal(f.Items, test.items) || !strings.Contains(f.Error(), test.text) {
				t.Errorf("failure is %v %v %q, want %v %v %q", f.Kind, f.Items, f, test.want, test.items, test.text)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		all := result{accepted: []int{1, 2}}
		if err := all.failure(cancelled); err != nil {
			t.Errorf("failure = %v, want nil: everything was accepted before the end", err)
		}
	})
}
