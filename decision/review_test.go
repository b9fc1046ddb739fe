package decision_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/docket-export/docket/decision"
)

// sampleReview is one of the exchanges that were captured of Gatekeeper.
func sampleReview(t testing.TB, name string) (request, response []byte) {
	t.Helper()
	dir := samplesDir + "/gatekeeper/admission/" + name
	return readSample(t, dir+"-request.json"), readSample(t, dir+"-response.json")
}

func TestFromReviewOfSamples(t *testing.T) {
	const (
		asked = `{"id":"705ab4f5-6393-11e8-b7cc-42010a80000%[1]d","eventType":"admission_review",%[2]s"resourceAPIVersion":"v1","resourceKind":"Pod","resourceNamespace":"shop","resourceName":"hand-%[1]d","operation":"%[3]s","requestResource":"pods",` +
			`"requestUsername":"alice@example.test","requestUserUID":"u-1","requestUserGroups":["dev","system:authenticated"],"dryRun":false,"schemaVersion":1,"decision":"%[4]s","process":"admission","requestUID":"705ab4f5-6393-11e8-b7cc-42010a80000%[1]d",`
		deny   = `"message":"[pods-must-have-owner] you must provide labels: {\"owner\"}\n[no-host-network] hostNetwork is not allowed for pod hand-1",`
		gone   = `"message":"[pods-must-have-owner] you must provide labels: {\"owner\"}\n[no-host-network] expression '!has(object.spec.hostNetwork) || object.spec.hostNetwork == false' resulted in error: no such key: spec",`
		repos  = `"[repos-warn] container <c> has an invalid image repo <docker.example.test/web:1>,\nallowed repos are [\"registry.example.test/\"]"`
		noHost = `"[no-host-network] hostNetwork is not allowed for pod hand-1"`
		noKey  = `"[no-host-network] expression '!has(object.spec.hostNetwork) || object.spec.hostNetwork == false' resulted in error: no such key: spec"`
	)
	for name, want := range map[string]string{
		"allow":  fmt.Sprintf(asked, 2, "", "CREATE", "allow") + `"code":200}`,
		"deny":   fmt.Sprintf(asked, 1, deny, "CREATE", "deny") + `"code":403,"warnings":[` + noHost + `,` + repos + `]}`,
		"warn":   fmt.Sprintf(asked, 3, "", "CREATE", "warn") + `"code":299,"warnings":[` + repos + `]}`,
		"delete": fmt.Sprintf(asked, 1, gone, "DELETE", "deny") + `"code":403,"warnings":[` + noKey + `]}`,
	} {
		t.Run(name, func(t *testing.T) {
			request, response := sampleReview(t, name)
			r, err := decision.FromReview(request, response)
			if err != nil {
				t.Fatal(err)
			}
			if got := line(t, r); got != want+"\n" {
				t.Errorf("got  %swant %s", got, want)
			}
			for n := range 40 {
				checkReview(t, request, response, []byte{byte(n)})
			}
			for _, cut := range []int{0, 1, len(request) / 2, len(request) - 3} { // its last bytes are "}\n" at most
				if got, err := decision.FromReview(request[:cut], response); !errors.Is(err, decision.ErrNotReview) {
					t.Errorf("%d bytes of the request: got %+v, %v, want that it is no review", cut, got, err)
				}
			}
			whole := bytes.TrimSpace(response)
			for cut := range whole {
				if got, err := decision.FromReview(request, whole[:cut]); err != nil || got.Decision != decision.Error || got.Message != "" {
					t.Errorf("%d bytes of the response: got %+v, %v, want an error", cut, got, err)
				}
			}
		})
	}
}

const (
	asked = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u-1","object":{"a":1},"oldObject":null}}`
	head  = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":`
)

func TestReviewAnswers(t *testing.T) {
	deny := func(more string) string { return head + `{"uid":"u-1","allowed":false` + more + `}}` }
	tests := map[string]struct {
		response string
		want     decision.Record
	}{
		"allow":           {head + `{"uid":"u-1","allowed":true}}`, decision.Record{Decision: decision.Allow}},
		"without allowed": {head + `{"uid":"u-1"}}`, decision.Record{Decision: decision.Deny}},
		"no warnings":     {head + `{"uid":"u-1","allowed":true,"warnings":[ ]}}`, decision.Record{Decision: decision.Allow}},
		"a warning":       {head + `{"uid":"u-1","allowed":true,"warnings":["a\nb"]}}`, decision.Record{Decision: decision.Warn, Warnings: []string{"a\nb"}}},
		"reason":          {deny(`,"status":{"reason":"Forbidden","code":403}`), decision.Record{Decision: decision.Deny, Message: "Forbidden", Code: 403}},
		"message":         {deny(`,"status":{"reason":"Forbidden","message":"no"}`), decision.Record{Decision: decision.Deny, Message: "no"}},
		"control bytes":   {deny(`,"status":{"message":"\u0000\u001b[2J\r\n\u2028\u0085"}`), decision.Record{Decision: decision.Deny, Message: "\x00\x1b[2J\r\n\u2028\u0085"}},
		"not UTF-8":       {deny(",\"status\":{\"message\":\"a\xff\xfeb\"}"), decision.Record{Decision: decision.Deny, Message: "a\ufffd\ufffdb"}},
		"white space":     {" \t\r\n" + strings.ReplaceAll(deny(""), ":", " : ") + "\n ", decision.Record{Decision: decision.Deny}},
		"annotations":     {deny(`,"auditAnnotations":{"a":"1","b\u002f":null}`), decision.Record{Decision: decision.Deny, AuditAnnotations: map[string]string{"a": "1", "b/": ""}}},
		"unknown members": {deny(`,"more":{"deep":[{}]},"":""`), decision.Record{Decision: decision.Deny}},
		"escaped names":   {strings.ReplaceAll(strings.ReplaceAll(deny(`,"status":{"message":"no"}`), `"message"`, `"m\u0065ssage"`), `"response"`, `"\u0072esponse"`), decision.Record{Decision: decision.Deny, Message: "no"}},
		"other case":      {deny(`,"Allowed":true,"ALLOWED":true`), decision.Record{Decision: decision.Deny}},
		"allowed twice":   {deny(`,"allowed":true`), decision.Record{Decision: decision.Allow}},
		"patch":           {head + `{"uid":"u-1","allowed":true,"patchType":"JSONPatch","patch":"W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL2EifV0="}}`, decision.Record{Decision: decision.Allow, PatchType: "JSONPatch", PatchBytes: 29, Patch: json.RawMessage(`[{"op":"remove","path":"/a"}]`)}},
		"escaped patch":   {head + `{"uid":"u-1","allowed":true,"patch":"\u0057\/\u002B+\n\u000a\r"}}`, decision.Record{Decision: decision.Allow, PatchBytes: 3, Omitted: []string{"patch"}}},
		"empty patch":     {head + `{"uid":"u-1","allowed":true,"patch":""}}`, decision.Record{Decision: decision.Allow}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.want.ID, tt.want.RequestUID, tt.want.EventType, tt.want.Process = "u-1", "u-1", decision.AdmissionReview, decision.Admission
			tt.want.Object = json.RawMessage(`{"a":1}`)
			got, err := decision.FromReview([]byte(asked), []byte(tt.response), decision.ContentObject, decision.ContentOldObject, decision.ContentPatch)
			if err != nil || line(t, got) != line(t, &tt.want) {
				t.Errorf("got  %s%v\nwant %s", line(t, got), err, line(t, &tt.want))
			}
			checkReview(t, []byte(asked), []byte(tt.response), []byte{0})
		})
	}
}

// What the API server cannot use is an error with its reason, and nothing of it is in the record.
func TestReviewFailures(t *testing.T) {
	const member = "the response is not an AdmissionReview: "
	tests := map[string]struct{ response, want string }{
		"empty":            {"", "the response is empty"},
		"blank":            {" \n", "the response is empty"},
		"HTML":             {"<html><body>502 Bad Gateway</body></html>", "the response is not a JSON object"},
		"text":             {"upstream connect error", "the response is not a JSON object"},
		"list":             {"[]", "the response is not a JSON object"},
		"null":             {"null", "the response is not a JSON object"},
		"cut off":          {head + `{"uid":"u-1","allowed":false,"status":{"message":"no`, "the response ends in the middle"},
		"two":              {head + `{"uid":"u-1"}}{}`, "the response is not JSON"},
		"comma":            {head + `{"uid":"u-1",}}`, "the response is not JSON"},
		"no comma":         {head + `{"uid":"u-1""allowed":true}}`, "the response is not JSON"},
		"no colon":         {head + `{"uid" "u-1"}}`, "the response is not JSON"},
		"no value":         {head + `{"uid":}}`, "the response is not JSON"},
		"literal":          {head + `{"uid":"u-1","allowed":trueish}}`, "the response is not JSON"},
		"unknown literal":  {head + `{"uid":"u-1","x":nil}}`, "the response is not JSON"},
		"line break":       {head + "{\"uid\":\"u-1\",\"status\":{\"message\":\"a\nb\"}}}", "the response is not JSON"},
		"broken name":      {head + `{"uid":"u-1","a\x":1}}`, "the response is not JSON"},
		"no response":      {`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`, "the response has no verdict: its member response is missing"},
		"null response":    {head + `null}`, "the response has no verdict: its member response is missing"},
		"its own request":  {asked, "the response has no verdict: its member response is missing"},
		"no UID":           {head + `{"allowed":true}}`, "the response has no uid"},
		"empty UID":        {head + `{"uid":"","allowed":true}}`, "the response has no uid"},
		"wrong UID":        {head + `{"uid":"u-2","allowed":true}}`, "the response has the uid of another request"},
		"no version":       {`{"response":{"uid":"u-1","allowed":true}}`, "the response is not an AdmissionReview of admission.k8s.io/v1"},
		"other version":    {strings.Replace(head, "/v1", "/v1beta1", 1) + `{"uid":"u-1","allowed":true}}`, "the response is not an AdmissionReview of admission.k8s.io/v1"},
		"other kind":       {strings.Replace(head, "Admission", "Token", 1) + `{"uid":"u-1","allowed":true}}`, "the response is not an AdmissionReview of admission.k8s.io/v1"},
		"text allows":      {head + `{"uid":"u-1","allowed":"true"}}`, member + "response.allowed must be a boolean, not a string"},
		"list response":    {head + `[]}`, member + "response must be an object, not an array"},
		"text status":      {head + `{"uid":"u-1","status":"no"}}`, member + "response.status must be an object, not a string"},
		"text code":        {head + `{"uid":"u-1","status":{"code":"403"}}}`, member + "response.status.code must be a number, not a string"},
		"fraction":         {head + `{"uid":"u-1","status":{"code":403.5}}}`, member + "response.status.code must be a whole number of 32 bits"},
		"large code":       {head + `{"uid":"u-1","status":{"code":4294967699}}}`, member + "response.status.code must be a whole number of 32 bits"},
		"text warnings":    {head + `{"uid":"u-1","warnings":"x"}}`, member + "response.warnings must be an array, not a string"},
		"number warnings":  {head + `{"uid":"u-1","warnings":["x",1]}}`, member + "response.warnings must have strings, not a number"},
		"list annotations": {head + `{"uid":"u-1","auditAnnotations":{"a":[]}}}`, member + "response.auditAnnotations must have strings, not an array"},
		"object patch":     {head + `{"uid":"u-1","patch":[]}}`, member + "response.patch must be a string, not an array"},
		"patch":            {head + `{"uid":"u-1","patch":"a-b="}}`, member + "response.patch must be base64"},
		"short patch":      {head + `{"uid":"u-1","patch":"abcde"}}`, member + "response.patch must be base64"},
		"padded patch":     {head + `{"uid":"u-1","patch":"ab=cd==="}}`, member + "response.patch must be base64"},
		"escaped patch":    {head + `{"uid":"u-1","patch":"ab\tc"}}`, member + "response.patch must be base64"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			want := decision.Record{
				ID: "u-1", RequestUID: "u-1", EventType: decision.AdmissionReview, Process: decision.Admission,
				Decision: decision.Error, Failure: tt.want,
			}
			got, err := decision.FromReview([]byte(asked), []byte(tt.response))
			if err != nil || line(t, got) != line(t, &want) {
				t.Errorf("got  %s%v\nwant %s", line(t, got), err, line(t, &want))
			}
			checkReview(t, []byte(asked), []byte(tt.response), []byte{0})
		})
	}
	r := decision.NewReviewReader()
	_, _ = r.Write([]byte(asked))
	if got, err := decision.ReviewRecord(r, nil); err != nil || got.Decision != decision.Error || got.Failure != "there is no response" || got.RequestUID != "u-1" {
		t.Errorf("got %+v, %v without a response, want an error", got, err)
	}
}

func TestNotAReview(t *testing.T) {
	response := head + `{"uid":"u-1","allowed":true}}`
	for name, tt := range map[string]struct{ request, want string }{
		"empty":         {"", "the request is empty"},
		"text":          {"hello", "the request is not a JSON object"},
		"broken":        {asked + "]", "the request is not JSON"},
		"cut off":       {asked[:len(asked)-2], "the request ends in the middle"},
		"other JSON":    {`{"hello":"world"}`, "the request has no request with a uid"},
		"no request":    {`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":null}`, "the request has no request with a uid"},
		"no UID":        {strings.Replace(asked, `"uid":"u-1",`, "", 1), "the request has no request with a uid"},
		"number":        {strings.Replace(asked, `"u-1"`, "1", 1), "the request is not an AdmissionReview: request.uid must be a string, not a number"},
		"groups":        {strings.Replace(asked, `"uid":"u-1"`, `"uid":"u-1","userInfo":{"groups":[{}]}`, 1), "the request is not an AdmissionReview: request.userInfo.groups must have strings, not an object"},
		"conversion":    {strings.Replace(strings.Replace(asked, "AdmissionReview", "ConversionReview", 1), "admission.k8s.io", "apiextensions.k8s.io", 1), "the request is of another kind"},
		"other group":   {strings.Replace(asked, "admission.k8s.io", "example.test", 1), "the request is of another API group"},
		"no version":    {strings.Replace(asked, `"apiVersion":"admission.k8s.io/v1",`, "", 1), "the request is of another API group"},
		"version alone": {strings.Replace(asked, `"kind":"AdmissionReview",`, "", 1), "the request is of another kind"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := decision.FromReview([]byte(tt.request), []byte(response))
			if got != nil || !errors.Is(err, decision.ErrNotReview) || !strings.HasSuffix(err.Error(), ": "+tt.want) {
				t.Errorf("got %+v, error %v, want %q", got, err, tt.want)
			}
			checkReview(t, []byte(tt.request), []byte(response), []byte{0})
		})
	}
}

// The answer and the beginning of the request tell the decision, and nothing of what is an
// error.
func TestReviewDecision(t *testing.T) {
	begin := strings.Replace(asked, `"uid":"u-1"`, `"more":"`+strings.Repeat("x", 200)+`","uid":"u-1"`, 1)
	large := strings.Replace(asked, `"a":1`, `"a":"`+strings.Repeat("x", 100<<10)+`"`, 1)
	answer := func(allowed string) string { return head + `{"uid":"u-1","allowed":` + allowed + `}}` }
	for name, tt := range map[string]struct {
		request, response string
		want              decision.Decision
	}{
		"allow":               {asked, answer("true"), decision.Allow},
		"deny":                {asked, answer("false"), decision.Deny},
		"warn":                {asked, answer(`true,"warnings":[""]`), decision.Warn},
		"no warnings":         {asked + " \n", answer(`true,"warnings":[]`), decision.Allow},
		"large":               {large, answer("true"), decision.Allow},
		"large and broken":    {large + "}", answer("true"), ""},
		"large and cut off":   {large[:len(large)-1], answer("true"), ""},
		"cut off":             {asked[:len(asked)-3], answer("true"), ""},
		"UID further on":      {begin, answer("true"), ""},
		"version at the end":  {`{"request":{"uid":"u-1"},"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`, answer("true"), decision.Allow},
		"without a version":   {`{"request":{"uid":"u-1"}}`, answer("true"), ""},
		"another kind":        {strings.Replace(asked, "AdmissionReview", "TokenReview", 1), answer("true"), ""},
		"empty":               {"", answer("true"), ""},
		"broken":              {`{"kind" "AdmissionReview"}`, answer("true"), ""},
		"no answer":           {asked, "", ""},
		"answer that ends":    {asked, answer("true")[:90], ""},
		"UID of another":      {asked, strings.Replace(answer("true"), "u-1", "u-2", 1), ""},
		"another version":     {asked, strings.Replace(answer("true"), "/v1", "/v1beta1", 1), ""},
		"beta without a UID":  {strings.Replace(asked, "/v1", "/v1beta1", 1), `{"response":{"allowed":true}}`, decision.Allow},
		"v1 without its kind": {asked, `{"response":{"uid":"u-1","allowed":true}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			request, response := decision.NewReviewReader(), decision.NewReviewReader()
			_, _ = request.Write([]byte(tt.request))
			_, _ = response.Write([]byte(tt.response))
			if got := decision.ReviewDecision(request, response); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			got, err := decision.ReviewRecord(request, response) // which it takes nothing from
			want, wantErr := decision.FromReview([]byte(tt.request), []byte(tt.response))
			if line(t, got) != line(t, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) || tt.want != "" && got.Decision != tt.want {
				t.Errorf("the record: got %s, %v, want %s, %v", line(t, got), err, line(t, want), wantErr)
			}
			if got := decision.ReviewDecision(request, nil); got != "" {
				t.Errorf("without an answer: got %q", got)
			}
		})
	}
}

// Versions and UIDs are asked for where the API server asks for them.
func TestReviewVersions(t *testing.T) {
	untyped := `{"request":{"uid":"u-1"}}`
	beta := strings.Replace(asked, "/v1", "/v1beta1", 1)
	for name, tt := range map[string]struct {
		request, response string
		want              decision.Decision
	}{
		"v1beta1":            {beta, strings.Replace(head, "/v1", "/v1beta1", 1) + `{"allowed":true}}`, decision.Allow},
		"v1beta1 to none":    {beta, `{"response":{"allowed":true}}`, decision.Allow},
		"made by a program":  {untyped, `{"response":{"uid":"u-1","allowed":true}}`, decision.Allow},
		"with another's UID": {untyped, `{"response":{"uid":"u-2","allowed":true}}`, decision.Error},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := decision.FromReview([]byte(tt.request), []byte(tt.response))
			if err != nil || got.Decision != tt.want {
				t.Errorf("got %+v, %v, want %s", got, err, tt.want)
			}
			checkReview(t, []byte(tt.request), []byte(tt.response), []byte{1})
		})
	}
}

// The original resource counts, which the request named before its conversion.
func TestReviewResource(t *testing.T) {
	const before = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","resource":{"resource":"deployments"},"subResource":"scale"`
	for more, want := range map[string][2]string{
		``:                        {"deployments", "scale"},
		`,"requestResource":null`: {"deployments", "scale"},
		`,"requestResource":{}`:   {"", ""},
		`,"requestResource":{"resource":"replicasets"},"requestSubResource":"status"`: {"replicasets", "status"},
		`,"requestSubResource":"status"`:                                              {"deployments", "scale"},
	} {
		got, err := decision.FromReview([]byte(before+more+"}}"), nil)
		if err != nil || [2]string{got.RequestResource, got.RequestSubresource} != want {
			t.Errorf("%s: got %+v, %v, want %q", more, got, err, want)
		}
		checkReview(t, []byte(before+more+"}}"), nil, []byte{2})
	}
}

// Nothing of an object is in a record unless it was asked for, under whatever name it comes.
func TestReviewLeavesContentOut(t *testing.T) {
	const secret = "c2VjcmV0"
	response := head + `{"uid":"u-1","allowed":true,"patch":"` + secret + `","p\u0061tch":"` + secret + `"}}`
	for _, name := range []string{"object", "oldObject", "options", `obj\u0065ct`, `\u006fldObject`, "Object", "objects", ""} {
		request := strings.Replace(asked, `"object":{"a":1}`, `"`+name+`":{"data":{"key":"`+secret+`"}}`, 1)
		r, err := decision.FromReview([]byte(request), []byte(response))
		if err != nil {
			t.Fatal(err)
		}
		if got := line(t, r); strings.Contains(got, secret) || r.PatchBytes != 6 {
			t.Errorf("%s: got %s, want none of its content", name, got)
		}
	}
	request := strings.Replace(asked, `"object"`, `"obj\u0065ct"`, 1)
	r, err := decision.FromReview([]byte(request), []byte(response), decision.ContentObject)
	if err != nil || string(r.Object) != `{"a":1}` || r.OldObject != nil || r.Patch != nil {
		t.Errorf("got %+v, %v, want the object alone", r, err)
	}
}

// What is large is left out by name, and the verdict stays.
func TestReviewOmitsWhatIsLarge(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	content := `{"a":"` + strings.Repeat("x", 300<<10) + `"}`
	request := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"unknown":"` + long + `","` + long + `":1,"object":` + content + `,"oldObject":` + content + `,"name":"` + long + `","uid":"u-1"}}`
	response := head + `{"status":{"message":"` + long + `","reason":"` + long + `","code":403},"warnings":["` + long + `"],"auditAnnotations":{"a":"` + long + `"},"patch":"` + strings.Repeat("abcd", 80<<10) + `","uid":"u-1"}}`
	got, err := inPieces([]byte(request), []byte(response), []byte{255})
	if err != nil {
		t.Fatal(err)
	}
	want := decision.Record{
		ID: "u-1", RequestUID: "u-1", EventType: decision.AdmissionReview, Process: decision.Admission,
		Decision: decision.Deny, Code: 403, PatchBytes: 240 << 10,
		Omitted: []string{"object", "oldObject", "resourceName", "message", "warnings", "auditAnnotations", "patch"},
	}
	if line(t, got) != line(t, &want) {
		t.Errorf("got  %.2000swant %s", line(t, got), line(t, &want))
	}
	warned, err := decision.FromReview([]byte(asked), []byte(head+`{"uid":"u-1","warnings":["`+long+`"],"allowed":true}}`))
	if err != nil || warned.Decision != decision.Warn || len(warned.Omitted) != 1 {
		t.Errorf("got %+v, %v, want a warning that was left out", warned, err)
	}
	mended, err := decision.FromReview([]byte(asked), []byte(head+`{"uid":"u-1","status":{"message":"`+strings.Repeat("\xff", 100<<10)+strings.Repeat(`","reason":"`+strings.Repeat("\xff", 100<<10), 3)+`"}}}`))
	if err != nil || mended.Message != "" || mended.Failure != "the response is too large to record" {
		t.Errorf("got a message of %d bytes, %q, %v, want none: it is too large in UTF-8", len(mended.Message), mended.Failure, err)
	}
	unclear, err := decision.FromReview([]byte(asked), []byte(head+`{"uid":"u-1","allowed":"`+long+`"}}`))
	if err != nil || unclear.Decision != decision.Error {
		t.Errorf("got %+v, %v, want an error", unclear, err)
	}
}

// floods are requests of some size that are made to take memory.
func floods(size int) map[string]func(w *decision.ReviewReader) {
	flood := func(begin, again, end string) func(w *decision.ReviewReader) {
		return func(w *decision.ReviewReader) {
			_, _ = w.Write([]byte(begin))
			piece := []byte(strings.Repeat(again, 1+(64<<10)/len(again)))
			for range size/len(piece) + 1 {
				_, _ = w.Write(piece)
			}
			_, _ = w.Write([]byte(end))
		}
	}
	begin := strings.TrimSuffix(asked, "}}")
	return map[string]func(w *decision.ReviewReader){
		"object":         flood(begin+`,"object":{"data":"`, "eHh4", `"}}}`),
		"labels":         flood(begin+`,"object":{"metadata":{"labels":{`, `"label-0001":"value","label-0002":"value",`, `"":""}}}}}`),
		"deep":           flood(begin+`,"object":`, `{"a":`, `}}`),
		"name":           flood(begin+`,"`, "name", `":1}}`),
		"unknown":        flood(begin, `,"unknown":{"a":"0123456789"}`, `}}`),
		"names":          flood(begin, `,"name":"0123456789"`, `}}`),
		"many objects":   flood(begin, `,"object":{"a":"0123456789"}`, `}}`),
		"many requests":  flood(begin+`}`, `,"request":{"uid":"u-1","object":{"a":"0123456789"}}`, `}`),
		"white space":    flood(begin, "    ", `}}`),
		"number":         flood(begin+`,"name":1`, "0000", `}}`),
		"no JSON":        flood("", "<html>", ""),
		"behind the end": flood(asked, "    ", ""),
	}
}

// A reader reads to the end of whatever comes, and knows what counts.
func TestReviewReaderReadsFloods(t *testing.T) {
	for name, write := range floods(4 << 20) {
		t.Run(name, func(t *testing.T) {
			r := decision.NewReviewReader(decision.ContentObject, decision.ContentOldObject, decision.ContentPatch)
			write(r)
			if got := r.Size(); got > 2<<20 {
				t.Errorf("got %d bytes held, want 2 MiB at most", got)
			}
			if rec, err := decision.ReviewRecord(r, nil); err == nil && rec.RequestUID != "u-1" {
				t.Errorf("got %+v, want the request that was made", rec)
			}
		})
	}
}

// A reader that is used again knows nothing of what it read before, and records stay.
func TestReviewReaderReset(t *testing.T) {
	asked, answered := decision.NewReviewReader(decision.ContentObject), decision.NewReviewReader()
	read := func(name string) *decision.Record {
		request, response := sampleReview(t, name)
		asked.Reset()
		answered.Reset()
		_, _ = asked.Write(request)
		_, _ = answered.Write(response)
		r, err := decision.ReviewRecord(asked, answered)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	deny := read("deny")
	want := line(t, deny)
	allow := read("allow")
	if got := line(t, deny); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
	request, response := sampleReview(t, "allow")
	fresh, err := decision.FromReview(request, response, decision.ContentObject)
	if err != nil || line(t, allow) != line(t, fresh) {
		t.Errorf("got  %swant %s%v", line(t, allow), line(t, fresh), err)
	}
	asked.Reset()
	answered.Reset()
	if got, err := decision.ReviewRecord(asked, answered); !errors.Is(err, decision.ErrNotReview) {
		t.Errorf("got %+v, %v of nothing", got, err)
	}
}

// inPieces is FromReview with all contents, of bodies that come in pieces of the sizes in cuts, again and again.
func inPieces(request, response, cuts []byte) (*decision.Record, error) {
	write := func(text []byte) *decision.ReviewReader {
		r := decision.NewReviewReader(decision.ContentObject, decision.ContentOldObject, decision.ContentPatch)
		for i := 0; len(text) > 0; i++ {
			n := 1
			if len(cuts) > 0 {
				n += int(cuts[i%len(cuts)])
			}
			piece := bytes.Clone(text[:min(n, len(text))])
			_, _ = r.Write(piece)
			for i := range piece {
				piece[i] = '!' // it must not be kept
			}
			text = text[min(n, len(text)):]
		}
		return r
	}
	return decision.ReviewRecord(write(request), write(response))
}

// checkReview compares the record of a review with that of its pieces.
func checkReview(t *testing.T, request, response, cuts []byte) {
	t.Helper()
	got, err := inPieces(request, response, cuts)
	whole, wholeErr := decision.FromReview(request, response, decision.ContentObject, decision.ContentOldObject, decision.ContentPatch)
	if line(t, got) != line(t, whole) || fmt.Sprint(err) != fmt.Sprint(wholeErr) {
		t.Errorf("%q\n%q\nin pieces   %s, %v\nas a whole  %s, %v", request, response, line(t, got), err, line(t, whole), wholeErr)
	}
	if err != nil {
		if got != nil || !errors.Is(err, decision.ErrNotReview) || strings.ContainsAny(err.Error(), "\n\r\"") {
			t.Errorf("%q: got %+v, error %q, want a plain ErrNotReview", request, got, err)
		}
	} else if (got.Decision == decision.Error) != (got.Failure != "") || strings.ContainsAny(got.Failure, "\n\r\"") {
		t.Errorf("%q: got decision %q, failure %q", response, got.Decision, got.Failure)
	}
}

// line is the line of r, "" of none.
func line(t *testing.T, r *decision.Record) string {
	t.Helper()
	if r == nil {
		return ""
	}
	mended := *r
	for _, raw := range []*json.RawMessage{&mended.Object, &mended.OldObject} { // what was not UTF-8
		if len(*raw) > 0 {
			*raw = json.RawMessage(string([]rune(string(*raw))))
		}
	}
	text, err := mended.AppendLine(nil)
	if err != nil || !json.Valid(text) {
		t.Errorf("%+v: got line %s, %v", r, text, err)
	}
	return string(text)
}

// Every review makes a record that can be written, and the same one in whatever pieces it comes.
func FuzzReview(f *testing.F) {
	for _, name := range []string{"allow", "deny", "warn", "delete"} {
		request, response := sampleReview(f, name)
		f.Add(request, response, []byte{7})
	}
	f.Add([]byte(asked), []byte(head+`{"uid":"u-1","status":null,"allowed":true,"patch":"W10=","patchType":null,"warnings":["",null]}}`), []byte{})
	f.Add([]byte(`{"request":{"uid":"u","kind":{"group":"g"},"userInfo":{"groups":["a"],"extra":{}},"options":1,"dryRun":true}}`), []byte(`{"response":{"uid":"u","auditAnnotations":{"a":"b"}},"response":{}}`), []byte{0, 3})
	f.Fuzz(func(t *testing.T, request, response, cuts []byte) { checkReview(t, request, response, cuts) })
}
