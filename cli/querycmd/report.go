package querycmd

import (
	"fmt"

	"github.com/docket-export/docket/internal/human"
)

// report is what a search has to say beside the records.
type report struct {
	problems   []string // what could not be searched
	notes      []string // what else there is to know
	unreadable uint64   // lines that are no records
	unjudged   uint64   // records that the expression fails for
	reason     string   // of the first of them
	untimed    uint64   // records that were written and may be from another time
}

func (r *report) cannotJudge(err error) {
	if r.unjudged++; r.unjudged == 1 {
		r.reason = err.Error()
	}
}

func (r *report) problem(text string) { r.problems = append(r.problems, text) }

// say tells it, and fails where not everything was searched.
func (r *report) say(say func(format string, args ...any)) error {
	for _, note := range r.notes {
		say("note: %s", human.OneLine(note))
	}
	if r.unjudged > 0 {
		say("note: %s left out: --when cannot be evaluated; the first error: %s", human.Count(r.unjudged, "record"), r.reason)
	}
	if r.untimed > 0 {
		say("note: %s may be outside --from and --to: neither the record nor a stamp has a time", human.Count(r.untimed, "record"))
	}
	for _, problem := range r.problems {
		say("%s", human.OneLine(problem))
	}
	if r.unreadable > 0 {
		say("%s skipped: not a JSON object", human.Count(r.unreadable, "line"))
	}
	if len(r.problems) > 0 || r.unreadable > 0 {
		return errNotAll
	}
	return nil
}

// errNotAll ends a search that has left something out.
var errNotAll = fmt.Errorf("search incomplete: see the messages above")
