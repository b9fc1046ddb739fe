package admission

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// The decisions. They are written down here once more, and not taken from the product,
// because operators rely on these words.
const (
	allowed = "allow"
	denied  = "deny"
	warned  = "warn"
	failed  = "error"
	// unanswered stands for a call of a webhook that nobody answered to its end. A record says
	// so only if the engine had begun.
	unanswered = "unanswered"
)

// verdict is what admission made of one request, in words that the audit log and the
// export have both.
type verdict struct {
	user, operation     string
	resource, namespace string // resource with its subresource: "pods/status"
	name                string
	dryRun              bool
	decision            string
	message             string // of a denial, as the engine said it
	warnings            string // each in a line of its own
}

func (v verdict) String() string {
	return fmt.Sprintf("%s: %s %s %s/%s by %s, dry run %t: %q, warnings %q", v.decision, v.operation, v.resource, v.namespace, v.name, v.user, v.dryRun, v.message, v.warnings)
}

var (
	denial  = regexp.MustCompile(`(?s)^admission webhook "([^"]+)" denied the request: (.*)$`)
	failure = regexp.MustCompile(`(?s)failed calling webhook "([^"]+)": (.*)$`)
)

// answeredByTap is in what the API server says of a webhook that failed when docket tap
// has answered for it. Without that nobody has.
const answeredByTap = "docket tap: "

// decide sets the decision, and the message, from what the API server says of a request
// that the webhook has denied, or that was refused because it failed.
func (v *verdict) decide(said, webhook string) {
	if m := denial.FindStringSubmatch(said); m != nil && m[1] == webhook {
		v.decision, v.message = denied, m[2]
	}
	if m := failure.FindStringSubmatch(said); m != nil && m[1] == webhook {
		v.decision = unanswered
		if strings.Contains(m[2], answeredByTap) {
			v.decision = failed
		}
	}
}

// tally is how often there is each verdict.
type tally map[verdict]int

// total counts them.
func (n tally) total() (all int) {
	for _, count := range n {
		all += count
	}
	return all
}

// byDecision counts them by decision.
func (n tally) byDecision() map[string]int {
	counts := make(map[string]int)
	for v, count := range n {
		counts[v.decision] += count
	}
	return counts
}

// minus returns what n has more often than m.
func (n tally) minus(m tally) tally {
	rest := make(tally)
	for v, count := range n {
		if more := count - m[v]; more > 0 {
			rest[v] = more
		}
	}
	return rest
}

// examples lists some of them.
func (n tally) examples() string {
	all := slices.SortedFunc(maps.Keys(n), func(a, b verdict) int { return cmp.Compare(a.String(), b.String()) })
	var text strings.Builder
	for _, v := range all[:min(len(all), 5)] {
		fmt.Fprintf(&text, "\n%d times %v", n[v], v)
	}
	return text.String()
}

// difference is what an export has wrong.
type difference struct {
	missing tally // verdicts that were given and have no record, or too few
	again   tally // records of a verdict that has one already
	foreign tally // records of what was not decided
}

// compare finds for each verdict that was given its record.
func compare(given, exported tally) difference {
	d := difference{missing: given.minus(exported), again: make(tally), foreign: make(tally)}
	for v, count := range exported.minus(given) {
		if given[v] > 0 {
			d.again[v] = count
		} else {
			d.foreign[v] = count
		}
	}
	return d
}

// problem returns what is wrong with an export that tells of so many losses itself: nil
// if exactly these are missing, and nothing else.
func (d difference) problem(losses map[string]int) error {
	switch {
	case d.foreign.total() > 0:
		return fmt.Errorf("%d records are of what was not decided:%s\nmissing are %d:%s", d.foreign.total(), d.foreign.examples(), d.missing.total(), d.missing.examples())
	case d.again.total() > 0:
		return fmt.Errorf("%d records are there again:%s", d.again.total(), d.again.examples())
	case !maps.Equal(d.missing.byDecision(), losses):
		return fmt.Errorf("missing are %v, and losses of %v are told:%s", d.missing.byDecision(), losses, d.missing.examples())
	}
	return nil
}
