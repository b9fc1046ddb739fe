package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"
	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/webhook"
)

// Kyverno has written its messages with both, in the course of its releases.
var encoders = map[string]func(any) ([]byte, error){
	"v2": yaml.Marshal,
	"v3": yamlv3.Marshal,
	"v3, indented by 2": func(v any) ([]byte, error) {
		var b bytes.Buffer
		e := yamlv3.NewEncoder(&b)
		e.SetIndent(2)
		err := e.Encode(v)
		return b.Bytes(), err
	},
}

// Whatever rules say, there is a record of each rule, and it has the whole YAML of its text.
func TestKyvernoMessages(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	for name, encode := range encoders {
		for range 300 {
			failures, want := map[string]map[string]string{}, []string{}
			for p := range 1 + rnd.IntN(3) {
				policy := fmt.Sprintf("%s-%d", []string{"require-labels", "a.b"}[rnd.IntN(2)], p)
				failures[policy] = map[string]string{}
				for r := range 1 + rnd.IntN(3) {
					rule := fmt.Sprintf("%s %d", []string{"check", "autogen-x"}[rnd.IntN(2)], r)
					failures[policy][rule] = text(rnd)
					want = append(want, policy+"|"+rule+"|"+failures[policy][rule])
				}
			}
			yamlText, err := encode(failures)
			if err != nil {
				t.Fatal(err)
			}
			message := fmt.Sprintf("\n\nresource Pod/a/b was blocked due to the following policies \n\n%s", yamlText)
			indent := "  "
			if name == "v3" {
				indent = "    "
			}
			got := violations(t, message, indent)
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("%s: got %q\nwant %q\nof %s", name, got, want, yamlText)
			}
		}
	}
}

// text is what a rule could say.
func text(rnd *rand.Rand) string {
	words := []string{
		"validation error:", "label 'team'", "is required.", "rule", "failed at path", "/spec/containers/0/", "\n", "\n\n", "  ", "\"q\"",
		"é", "\x1b[31m", ": ", " #", "-", "|", "{}", "%", "!", "&a", "*", "\\", "0x1", "null", "\u0085", "  \n x", "a-long-word-that-does-not-fit-into-a-line-of-eighty-characters-together-with-others",
	}
	var b strings.Builder
	for range 1 + rnd.IntN(20) {
		b.WriteString(words[rnd.IntN(len(words))])
		if rnd.IntN(3) > 0 {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// violations returns what is recorded of a denial with that message, whose rules are indented so.
func violations(t *testing.T, message, indent string) (list []string) {
	t.Helper()
	encoded, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"%s","allowed":false,"status":{"message":%s}}}`, uid, encoded)
		for buf := make([]byte, 1024); ; {
			if _, err := r.Body.Read(buf); err != nil {
				return
			}
		}
	})
	for _, r := range records(t, client.Batch, func(c *client.Client) {
		post := httptest.NewRequest(http.MethodPost, "/validate", strings.NewReader(review))
		post.Header.Set("Content-Type", "application/json")
		webhook.Log(next, c, webhook.Options{Preset: webhook.Kyverno}).ServeHTTP(httptest.NewRecorder(), post)
	}) {
		var details struct{ Rule string }
		if len(r.Details) > 0 {
			if err := json.Unmarshal(r.Details, &details); err != nil {
				t.Fatal(err)
			}
		}
		var said struct{ P struct{ R string } } // where the message has been
		if err := yamlv3.Unmarshal([]byte("p:\n"+indent+"r: "+r.Message+"\n"), &said); err != nil {
			t.Fatalf("%q: %v", r.Message, err)
		}
		list = append(list, r.Name+"|"+details.Rule+"|"+said.P.R)
	}
	return list
}
