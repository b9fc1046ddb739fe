package webhook

import (
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
)

func TestParse(t *testing.T) {
	decisions, err := ParseDecisions("deny, warn,error,allow")
	if want := []decision.Decision{decision.Deny, decision.Warn, decision.Error, decision.Allow}; err != nil || !slices.Equal(decisions, want) {
		t.Errorf("decisions: got %v, %v, want %v", decisions, err, want)
	}
	include, err := ParseInclude("object,oldObject,patch")
	if want := []decision.Content{decision.ContentObject, decision.ContentOldObject, decision.ContentPatch}; err != nil || !slices.Equal(include, want) {
		t.Errorf("include: got %v, %v, want %v", include, err, want)
	}
	if include, err := ParseInclude(""); err != nil || include != nil {
		t.Errorf("include of nothing: got %v, %v, want nothing", include, err)
	}
	for text, want := range map[string]Preset{"": "", "gatekeeper": Gatekeeper, "KYVERNO": Kyverno, "validatingAdmissionPolicy": ValidatingAdmissionPolicy} {
		if p, err := ParsePreset(text); err != nil || p != want {
			t.Errorf("preset %q: got %q, %v, want %q", text, p, err, want)
		}
	}
	_, err = ParseDecisions("deny,dryrun")
	checkError(t, err, `must be deny, warn, error or allow, not "dryrun"`)
	_, err = ParseDecisions("")
	checkError(t, err, `must be deny, warn, error or allow, not ""`)
	_, err = ParseInclude("object,secrets")
	checkError(t, err, `must be object, oldObject or patch, not "secrets"`)
	_, err = ParsePreset("gatekeeper2")
	checkError(t, err, `must be gatekeeper, kyverno or validatingadmissionpolicy, not "gatekeeper2"`)
}

func checkError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestOptionsThatAreNotValid(t *testing.T) {
	o := Options{Decisions: []decision.Decision{"maybe"}, Include: []decision.Content{"all"}, Preset: "OPA"}
	want := `decisions: must be deny, warn, error or allow, not "maybe"
include: must be object, oldObject or patch, not "all"
preset: must be gatekeeper, kyverno or validatingadmissionpolicy, not "OPA"`
	checkError(t, o.Validate(), want)
	if err := new(Options).Validate(); err != nil {
		t.Errorf("the zero value: got %v, want nil", err)
	}
	dryRun := Options{Decisions: []decision.Decision{decision.DryRun}}
	checkError(t, dryRun.Validate(), `decisions: must be deny, warn, error or allow, not "dryrun"`)
	if dryRun.Found = true; dryRun.Validate() != nil {
		t.Errorf("dryrun with Found: got %v, want nil", dryRun.Validate())
	}
	defer func() {
		if p, _ := recover().(string); !strings.HasPrefix(p, "webhook: decisions: ") {
			t.Errorf("Log: got panic %q, want what is wrong", p)
		}
	}()
	Log(nil, nil, o)
}

// Which decisions leave a record is the user's to say.
func TestDecisions(t *testing.T) {
	e := newExporter(t)
	c := newClient(t, e, client.Config{})
	o := Options{Decisions: []decision.Decision{decision.Allow}}
	h := Log(answers(allowed), c, o)
	o.Decisions[0] = decision.Deny // is the caller's again
	serveOne(h, review)
	serveOne(Log(answers(denied), c, Options{Decisions: []decision.Decision{decision.Allow, decision.Warn}}), review)
	records, _ := stored(t, c, e)
	if len(records) != 1 || records[0].Decision != decision.Allow {
		t.Errorf("got %+v, want the allow", records)
	}
}
