package webhook

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/docket-export/docket/decision"
)

// Options says what Log records. The zero value records what was denied, warned of or
// failed, one record a review.
type Options struct {
	// Decisions are the decisions that leave a record: of a review, or with a preset of each of its
	// violations. DryRun needs Found. Default: deny, warn, error.
	Decisions []decision.Decision
	// Found: the handler names its violations with the function Found. It costs each review a
	// context.
	Found bool
	// Include are the contents that records have. They may hold secrets. Default: none.
	Include []decision.Content
	// Preset is the engine whose messages are split into violations, each a record.
	// Default: none, one record a review.
	Preset Preset
	// Cluster and Pod stand in every record under these names.
	Cluster, Pod string
	// Log is told of faults in this package, never of what is in a review. It must not
	// block. nil: nobody is told.
	Log *slog.Logger
	// Observe is called for each review when its records are made, or when it is certain that it
	// leaves no record. It is not called for reviews without room for their records: the client
	// counts them as lost. Calls overlap. It must not block: records and answers wait for it.
	Observe func(Outcome)
}

// Outcome is the result of one review.
type Outcome struct {
	// Decision is the decision of the review, recorded or not.
	Decision decision.Decision
	// Records is how many were given to the client.
	Records int
	// NotReview: the request was JSON, but not an admission review.
	NotReview bool
	// Duration is how long the handler took.
	Duration time.Duration
}

// Preset is an engine whose messages can be split into violations, each of which names its policy.
// A message that is not in the engine's form stays whole. A text that an engine repeats, such as a
// label, may have this form too and so appear under the name of another policy. The raw message in
// details is what the engine said.
type Preset string

// The presets.
const (
	// Gatekeeper joins "[constraint] message" with newlines; each warning is one.
	Gatekeeper Preset = "Gatekeeper"
	// Kyverno lists policies and their rules as YAML. A ValidatingPolicy and similar
	// policies say "Policy name failed: message".
	Kyverno Preset = "Kyverno"
	// ValidatingAdmissionPolicy is for engines that speak as the API server does:
	// "ValidatingAdmissionPolicy 'name' with binding 'name' denied request: message".
	ValidatingAdmissionPolicy Preset = "ValidatingAdmissionPolicy"
)

var presets = []Preset{Gatekeeper, Kyverno, ValidatingAdmissionPolicy}

// defaultDecisions leaves out what changes nothing for anybody.
func defaultDecisions() []decision.Decision {
	return []decision.Decision{decision.Deny, decision.Warn, decision.Error}
}

// Validate reports every invalid value, as one error made with errors.Join.
func (o *Options) Validate() error {
	var errs []error
	for _, d := range o.Decisions {
		if !(o.Found && d == decision.DryRun) {
			errs = append(errs, prefix("decisions", checkDecision(d)))
		}
	}
	for _, c := range o.Include {
		errs = append(errs, prefix("include", checkContent(c)))
	}
	if o.Preset != "" && !slices.Contains(presets, o.Preset) {
		errs = append(errs, prefix("preset", notPreset(string(o.Preset))))
	}
	return errors.Join(errs...)
}

func prefix(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", key, err)
}

// ParsePreset returns the preset with this name, in capitals or not: "gatekeeper". The
// empty text stands for no preset.
func ParsePreset(text string) (Preset, error) {
	if text == "" {
		return "", nil
	}
	for _, p := range presets {
		if strings.EqualFold(text, string(p)) {
			return p, nil
		}
	}
	return "", notPreset(text)
}

func notPreset(text string) error {
	return fmt.Errorf("must be gatekeeper, kyverno or validatingadmissionpolicy, not %q", text)
}

// ParseDecisions returns the decisions of a list such as "deny,warn,error", for a program that
// reads them out of answers. DryRun is not among them: no answer says it.
func ParseDecisions(text string) ([]decision.Decision, error) { return parseList(text, checkDecision) }

// An answer never says dryrun: a violation of that action is an allow to the API server. A handler
// that calls Found says so itself.
func checkDecision(d decision.Decision) error {
	switch d {
	case decision.Allow, decision.Deny, decision.Warn, decision.Error:
		return nil
	}
	return fmt.Errorf("must be deny, warn, error or allow, not %q", string(d))
}

// ParseInclude returns the contents of a list such as "object,oldObject". The empty text
// stands for none.
func ParseInclude(text string) ([]decision.Content, error) {
	if text == "" {
		return nil, nil
	}
	return parseList(text, checkContent)
}

func checkContent(c decision.Content) error {
	switch c {
	case decision.ContentObject, decision.ContentOldObject, decision.ContentPatch:
		return nil
	}
	return fmt.Errorf("must be object, oldObject or patch, not %q", string(c))
}

func parseList[T ~string](text string, check func(T) error) (list []T, err error) {
	for item := range strings.SplitSeq(text, ",") {
		value := T(strings.TrimSpace(item))
		if err := check(value); err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, nil
}
