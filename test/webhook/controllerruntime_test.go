// Package webhook holds what engines make of reviews against what webhook.Log records of
// it: with the library that most webhooks are built on, and the one that Kyverno writes its
// messages with.
package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/client/clienttest"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/webhook"
)

const (
	uid    = "705ab4f5-6393-11e8-b7cc-42010a800001"
	review = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"` + uid + `",` +
		`"kind":{"group":"apps","version":"v1","kind":"Deployment"},"resource":{"group":"apps","version":"v1","resource":"deployments"},` +
		`"name":"web","namespace":"shop","operation":"CREATE","userInfo":{"username":"alice","groups":["dev"]},` +
		`"object":{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"web"}},"dryRun":false}}`
)

// records runs f with a client and returns what it has logged.
func records(t *testing.T, mode client.Mode, f func(c *client.Client)) (list []decision.Record) {
	t.Helper()
	e := clienttest.New()
	defer e.Close()
	c, err := client.New(client.Config{Address: "test://", Mode: mode, Timeout: time.Minute, Transports: map[string]client.Transport{
		"test": func(string, *client.Config) (client.Dial, error) {
			return func(ctx context.Context) (net.Conn, error) { return e.Dial(ctx) }, nil
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	f(c)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if left, err := c.Close(ctx); left != 0 || err != nil {
		t.Fatalf("Close: got %d, %v, want all stored", left, err)
	}
	for _, l := range e.Lines() {
		var r decision.Record
		if err := json.Unmarshal([]byte(l.Text), &r); err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

// answerOf returns status, header and body of what h answers, but for the date.
func answerOf(t *testing.T, h http.Handler, contentType, body string) string {
	t.Helper()
	s := httptest.NewServer(h)
	defer s.Close()
	resp, err := http.Post(s.URL+"/validate", contentType, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Header.Del("Date")
	return fmt.Sprintln(resp.Status, resp.Header, string(text))
}

// A webhook of controller-runtime answers as it does without, and each of its answers
// leaves the record that it should.
func TestControllerRuntime(t *testing.T) {
	log.SetLogger(logr.Discard())
	replicas := []byte(`{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"web"},"spec":{"replicas":1}}`)
	for name, tt := range map[string]struct {
		handle      func(admission.Request) admission.Response
		contentType string
		body        string
		want        decision.Record
	}{
		"allowed": {
			handle: func(admission.Request) admission.Response { return admission.Allowed("fine") },
			want:   decision.Record{Decision: decision.Allow, Code: 200, RequestUID: uid, Message: "fine"},
		},
		"denied": {
			handle: func(admission.Request) admission.Response { return admission.Denied("no <b>\n\x1b[31m") },
			want:   decision.Record{Decision: decision.Deny, Code: 403, RequestUID: uid, Message: "no <b>\n\x1b[31m"},
		},
		"warned": {
			handle: func(admission.Request) admission.Response { return admission.Allowed("").WithWarnings("soon") },
			want:   decision.Record{Decision: decision.Warn, Code: 200, RequestUID: uid},
		},
		"patched": {
			handle: func(r admission.Request) admission.Response {
				return admission.PatchResponseFromRaw(r.Object.Raw, replicas)
			},
			want: decision.Record{Decision: decision.Allow, Code: 200, RequestUID: uid, PatchType: "JSONPatch", PatchBytes: len(`[{"op":"add","path":"/spec","value":{"replicas":1}}]`)},
		},
		"errored": {
			handle: func(admission.Request) admission.Response {
				return admission.Errored(http.StatusInternalServerError, io.ErrUnexpectedEOF)
			},
			want: decision.Record{Decision: decision.Deny, Code: 500, RequestUID: uid, Message: "unexpected EOF"},
		},
		"panicked": {
			handle: func(admission.Request) admission.Response { panic("boom") },
			want:   decision.Record{Decision: decision.Deny, Code: 500, RequestUID: uid, Message: "panic: boom [recovered]"},
		},
		"not JSON": {
			handle: func(admission.Request) admission.Response { return admission.Allowed("") },
			body:   "{",
			want:   decision.Record{Decision: decision.Error},
		},
		"a type that it does not take": {
			handle:      func(admission.Request) admission.Response { return admission.Allowed("") },
			contentType: "application/json; charset=utf-8",
			want:        decision.Record{Decision: decision.Error, RequestUID: uid},
		},
	} {
		t.Run(name, func(t *testing.T) {
			next := &admission.Webhook{Handler: admission.HandlerFunc(func(_ context.Context, r admission.Request) admission.Response {
				return tt.handle(r)
			})}
			contentType, body := tt.contentType, tt.body
			if contentType == "" {
				contentType = "application/json"
			}
			if body == "" {
				body = review
			}
			want := answerOf(t, next, contentType, body)
			for _, mode := range []client.Mode{client.Batch, client.Blocking, client.BlockingStrict} {
				list := records(t, mode, func(c *client.Client) {
					all := []decision.Decision{decision.Allow, decision.Deny, decision.Warn, decision.Error}
					if got := answerOf(t, webhook.Log(next, c, webhook.Options{Decisions: all}), contentType, body); got != want {
						t.Errorf("%s: got %s, want %s", mode, got, want)
					}
				})
				if len(list) != 1 {
					t.Errorf("%s: got %+v, want one record", mode, list)
					continue
				}
				r := list[0]
				if got := (decision.Record{Decision: r.Decision, Code: r.Code, RequestUID: r.RequestUID, Message: r.Message, PatchType: r.PatchType, PatchBytes: r.PatchBytes}); fmt.Sprint(got) != fmt.Sprint(tt.want) {
					t.Errorf("%s: got %+v, want %+v", mode, got, tt.want)
				}
				if (r.Failure != "") != (r.Decision == decision.Error) {
					t.Errorf("%s: failure: got %q of decision %s", mode, r.Failure, r.Decision)
				}
			}
		})
	}
}
