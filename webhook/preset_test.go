package webhook

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
)

func TestPresets(t *testing.T) {
	const gatekeeper = "constraints.gatekeeper.sh"
	const native, vap = "admissionregistration.k8s.io", "ValidatingAdmissionPolicy"
	for name, tt := range map[string]struct {
		preset Preset
		text   string
		want   []violation // none: the text stays whole
	}{
		"Gatekeeper, one": {Gatekeeper, "[a] no", []violation{{policy: "a", message: "no", group: gatekeeper}}},
		"Gatekeeper, two, and lines in a message": {
			Gatekeeper, "[pods-must-have-owner] you must\n provide [x]:\n[ ] \n[Not-A-Name] y\n\n[no.host-1] no\n",
			[]violation{
				{policy: "pods-must-have-owner", message: "you must\n provide [x]:\n[ ] \n[Not-A-Name] y\n", group: gatekeeper},
				{policy: "no.host-1", message: "no\n", group: gatekeeper},
			},
		},
		"Gatekeeper, not of a constraint": {Gatekeeper, "namespace is excluded\n[a] b", nil},
		"Gatekeeper, no message":          {Gatekeeper, "", nil},
		"Gatekeeper, an empty name":       {Gatekeeper, "[] b", nil},
		"Gatekeeper, names of no object": {
			Gatekeeper, "[a] b\n[-a] b\n[a-] b\n[.a] b\n[a.] b\n[a..b] b\n[a.-b] b",
			[]violation{{policy: "a", message: "b\n[-a] b\n[a-] b\n[.a] b\n[a.] b\n[a..b] b\n[a.-b] b", group: gatekeeper}},
		},
		"Gatekeeper, a name of 254 bytes": {Gatekeeper, "[" + strings.Repeat("a", 254) + "] b", nil},

		// GetBlockedMessages as block_test.go of Kyverno has it.
		"Kyverno, error and failure": {
			Kyverno, "\n\nresource foo/bar/baz was blocked due to the following policies \n\ntest:\n  rule-error: message error\n  rule-fail: message fail\n",
			[]violation{{policy: "test", rule: "rule-error", message: "message error"}, {policy: "test", rule: "rule-fail", message: "message fail"}},
		},
		"Kyverno, folded and quoted": {
			Kyverno, "\n\nresource Pod/default/demo was blocked due to the following policies\n\nrequire-team:\n  autogen-check: 'validation error: label ''team'' is\n    required.\n\n    See: the wiki'\n  other: |-\n    first\n      second\n\n    third\np2:\n    r: \"tab\\t\"\n",
			[]violation{
				{policy: "require-team", rule: "autogen-check", message: "'validation error: label ''team'' is\n    required.\n\n    See: the wiki'"},
				{policy: "require-team", rule: "other", message: "|-\n    first\n      second\n\n    third"},
				{policy: "p2", rule: "r", message: `"tab\t"`},
			},
		},
		"Kyverno, nothing":          {Kyverno, "resource Pod/a/b was blocked due to the following policies", nil},
		"Kyverno, no mapping":       {Kyverno, "resource Pod/a/b was blocked due to the following policies \n\nfailed to encode failures: x\n", nil},
		"Kyverno, no name":          {Kyverno, "resource Pod/a/b was blocked due to the following policies \n\n'1':\n  r: x\n", nil},
		"Kyverno, a rule in quotes": {Kyverno, "resource Pod/a/b was blocked due to the following policies \n\np:\n  'a: b': x\n", nil},
		"Kyverno, deeper":           {Kyverno, "resource Pod/a/b was blocked due to the following policies \n\np:\n  r:\n    x: y\n", nil},
		"Kyverno, an indented head": {Kyverno, "resource Pod/a/b was blocked due to the following policies \n\np:\n  r: x\n q: y\n", nil},
		"Kyverno, a rule alone":     {Kyverno, "resource Pod/a/b was blocked due to the following policies \n\n\n  r: x\n", nil},
		"Kyverno, validating policies": {
			Kyverno, "Policy require-a failed: no a; Policy say: b; Policy require.b error: no such key: b",
			[]violation{{policy: "require-a", message: "no a; Policy say: b"}, {policy: "require.b", message: "no such key: b"}},
		},
		"Kyverno, its own": {Kyverno, "A kyverno managed resource can only be modified by kyverno", nil},

		"policy with binding": {
			ValidatingAdmissionPolicy, "ValidatingAdmissionPolicy 'p.example.com' with binding 'b' denied request: failed expression: object.spec.replicas <= 5",
			[]violation{{policy: "p.example.com", binding: "b", message: "failed expression: object.spec.replicas <= 5", group: native, kind: vap}},
		},
		"policy without": {
			ValidatingAdmissionPolicy, `deployments.apps "nginx" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: x`,
			[]violation{{policy: "p", message: "failed to configure policy: x", group: native, kind: vap}},
		},
		"policy, something else": {ValidatingAdmissionPolicy, "ValidatingAdmissionPolicy 'p' is nice", nil},
		"policy, not closed":     {ValidatingAdmissionPolicy, "ValidatingAdmissionPolicy 'p with binding 'b' denied request: x", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.preset.denial(tt.text); !slices.Equal(got, tt.want) {
				t.Errorf("got %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestPresetsOfWarnings(t *testing.T) {
	for text, want := range map[string]violation{
		"[repos-warn] container <c>,\nallowed [\"r\"]": {policy: "repos-warn", message: "container <c>,\nallowed [\"r\"]", group: constraintGroup},
		"policy require.team.check-team: label: no":    {policy: "require.team", rule: "check-team", message: "label: no"},
		"Policy require-a failed: no a":                {policy: "require-a", message: "no a"},
		"policy ABC.r: x":                              {},
		"policy: x":                                    {},
		"spec.x is deprecated":                         {},
		"[a]b":                                         {},
		"Validation failed for ValidatingAdmissionPolicy 'x": {},
		"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': m": {
			policy: "p", binding: "b", message: "m", group: "admissionregistration.k8s.io", kind: "ValidatingAdmissionPolicy",
		},
	} {
		found := 0
		for _, p := range presets {
			if v, ok := p.warning(text); ok {
				found++
				if v != want {
					t.Errorf("%s: %q: got %q, want %q", p, text, v, want)
				}
			}
		}
		if wanted := min(len(want.policy), 1); found != wanted {
			t.Errorf("%q: understood by %d presets, want %d", text, found, wanted)
		}
	}
}

// The messages that were captured of Gatekeeper.
func TestGatekeeperSamples(t *testing.T) {
	for name, want := range map[string][]string{
		"deny": {
			`deny pods-must-have-owner you must provide labels: {"owner"}`, "deny no-host-network hostNetwork is not allowed for pod hand-1",
			"warn no-host-network hostNetwork is not allowed for pod hand-1",
			"warn repos-warn container <c> has an invalid image repo <docker.example.test/web:1>,\nallowed repos are [\"registry.example.test/\"]",
		},
		"warn":  {"warn repos-warn container <c> has an invalid image repo <docker.example.test/web:1>,\nallowed repos are [\"registry.example.test/\"]"},
		"allow": nil,
	} {
		e := newExporter(t)
		c := newClient(t, e, client.Config{})
		answer := sample(t, name+"-response")
		serveOne(Log(answers(answer), c, Options{Preset: Gatekeeper}), sample(t, name+"-request"))
		records, _ := stored(t, c, e)
		var got []string
		for i, r := range records {
			got = append(got, string(r.Decision)+" "+r.Name+" "+r.Message)
			if r.EnforcementAction != string(r.Decision) || r.Group != constraintGroup || r.Sequence != uint64(i+1) || r.RequestUID == "" || len(r.Warnings) != 0 {
				t.Errorf("%s: record %d: got %+v, want what each has", name, i, r.Record)
			}
			var details struct{ RawMessage string }
			if err := json.Unmarshal(r.Details, &details); err != nil || !inJSON(answer, details.RawMessage) {
				t.Errorf("%s: record %d: got raw message %q, %v, want it as it was answered", name, i, details.RawMessage, err)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q\nwant %q", name, got, want)
		}
	}
}

// inJSON reports whether text is one of the texts in an answer.
func inJSON(answer, text string) bool {
	var review struct {
		Response struct {
			Status   struct{ Message string }
			Warnings []string
		}
	}
	return json.Unmarshal([]byte(answer), &review) == nil && text != "" &&
		(text == review.Response.Status.Message || slices.Contains(review.Response.Warnings, text))
}

// What is of no violation is in the first record only, and a review has not more records
// than allowed, however its message looks.
func TestSplitIsBounded(t *testing.T) {
	var message strings.Builder
	for range 10_000 {
		message.WriteString("[a] " + strings.Repeat("m", 20) + "\n")
	}
	r := &decision.Record{
		Decision: decision.Deny, Message: message.String(), Warnings: []string{"deprecated", "[w] x"},
		Object: json.RawMessage("{}"), AuditAnnotations: map[string]string{"a": "b"},
	}
	records := Gatekeeper.split(r)
	if len(records) != maxViolations {
		t.Fatalf("got %d records, want %d", len(records), maxViolations)
	}
	total := 0
	for i, r := range records {
		total += len(r.Message)
		if first := i == 0; (r.Object != nil) != first || (r.AuditAnnotations != nil) != first || (len(r.Warnings) == 2) != first || (len(r.Details) > 1000) != first {
			t.Errorf("record %d: got %d bytes of details, %+v", i, len(r.Details), r.Warnings)
		}
	}
	if want := message.Len() - len("[a] \n")*maxViolations; total < want {
		t.Errorf("messages: got %d bytes, want at least %d: nothing is left out", total, want)
	}
	if len(r.Warnings) != 2 {
		t.Errorf("the record that is split has changed: %q", r.Warnings)
	}
}

// A denial that has no form and its warnings, which have, are all recorded.
func TestSplitOfWarningsAlone(t *testing.T) {
	records := Gatekeeper.split(&decision.Record{Decision: decision.Deny, Message: "boom", Code: 500, Warnings: []string{"[w] x", "other"}})
	if len(records) != 2 || records[0].Message != "boom" || records[0].Decision != decision.Deny || !slices.Equal(records[0].Warnings, []string{"other"}) ||
		records[1].Message != "x" || records[1].Decision != decision.Warn {
		t.Errorf("got %+v, want the denial and the warning", records)
	}
	whole := &decision.Record{Decision: decision.Deny, Message: "boom", Warnings: []string{"other"}}
	for _, p := range append(presets, "") {
		if got := p.split(whole); len(got) != 1 || got[0] != whole {
			t.Errorf("%q: got %+v, want the record as it is", p, got)
		}
	}
	failed := &decision.Record{Decision: decision.Error, Message: "[a] b", Failure: "HTTP status 503"}
	if got := Gatekeeper.split(failed); len(got) != 1 || got[0] != failed {
		t.Errorf("got %+v, want the failure as it is", got)
	}
}

// No text makes a preset panic, or lose a byte of a message of Gatekeeper.
func FuzzPresets(f *testing.F) {
	for _, text := range []string{
		"[a] b\n[c] d", "[a] \n[b] \n\n[c] ", "Policy a failed: b; Policy c error: d", "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: m",
		"x was blocked due to the following policies \n\np:\n  r: 'a\n    b'\n  \"s\": |+\n    x\n\n", "x was blocked due to the following policies\n\n'':\n  '': \"\\x",
		"policy a.b: c",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range presets {
			p.warning(text)
			list := p.denial(text)
			if p != Gatekeeper || len(list) == 0 {
				continue
			}
			var all []string
			for _, v := range list {
				all = append(all, "["+v.policy+"] "+v.message)
			}
			if got := strings.Join(all, "\n"); got != text && got+"\n" != text {
				t.Errorf("got %q, want %q", got, text)
			}
		}
	})
}
