package exporter

import (
	"fmt"

	"github.com/docket-export/docket/exporter/filter"
)

// selection says which records a sink gets. The zero value takes every record.
type selection struct {
	filter   *filter.Filter // nil: all
	withhold bool           // records that the filter cannot judge
}

func newSelection(s SinkConfig) (selection, error) {
	when, err := filter.Compile(s.When)
	if err != nil {
		return selection{}, fmt.Errorf("sink %s: when: %w", s.Name, err)
	}
	return selection{filter: when, withhold: s.OnError == Withhold}, nil
}

// takes reports whether the sink gets record. An error says why the filter could not
// judge it; the result is that of onError then.
func (s selection) takes(record []byte) (bool, error) {
	takes, err := s.filter.Takes(record)
	if err != nil {
		return !s.withhold, err
	}
	return takes, nil
}

// of says what becomes of a record that cannot be judged, for messages.
func (e OnError) of() string {
	if e == Withhold {
		return "withheld"
	}
	return "delivered"
}
