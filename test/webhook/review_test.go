package webhook

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"

	"github.com/docket-export/docket/decision"
)

// TestReviewsAsTheAPIServerReadsThem compares the records of answers, good and bad, with what the
// decoder and the types of the API server make of the same bytes.
func TestReviewsAsTheAPIServerReadsThem(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	g := answers{rand.New(rand.NewPCG(seed, 0))}
	decoder := apiDecoder(t)
	made := map[decision.Decision]int{}
	for range 20000 {
		response := g.review()
		want, wantErr := apiAnswer(decoder, response)
		got, err := decision.FromReview([]byte(review), response, decision.ContentPatch)
		if err != nil {
			t.Fatal(err)
		}
		made[got.Decision]++
		if wantErr != nil {
			if got.Decision != decision.Error {
				t.Fatalf("%q\ngot %+v\nthe API server: %v", response, got, wantErr)
			}
			continue
		}
		if err := sameAnswer(got, want); err != nil {
			t.Fatalf("%q\n%v", response, err)
		}
	}
	for _, d := range []decision.Decision{decision.Allow, decision.Deny, decision.Warn, decision.Error} {
		if made[d] < 100 {
			t.Errorf("got %d answers of decision %s: the test tests too little", made[d], d)
		}
	}
}

func apiDecoder(t *testing.T) runtime.Decoder {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := admissionv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{})
}

// apiAnswer decodes an answer and checks it as VerifyAdmissionResponse does in
// k8s.io/apiserver/pkg/admission/plugin/webhook/request/admissionreview.go.
func apiAnswer(decoder runtime.Decoder, response []byte) (*admissionv1.AdmissionResponse, error) {
	var r admissionv1.AdmissionReview
	if _, _, err := decoder.Decode(response, nil, &r); err != nil {
		return nil, err
	}
	switch {
	case r.Response == nil:
		return nil, errors.New("webhook response was absent")
	case r.Response.UID != uid:
		return nil, fmt.Errorf("expected response.uid %q", r.Response.UID)
	case r.GroupVersionKind() != admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"):
		return nil, fmt.Errorf("got a response of %s", r.GroupVersionKind())
	}
	return r.Response, nil
}

func sameAnswer(got *decision.Record, want *admissionv1.AdmissionResponse) error {
	verdict := decision.Deny
	switch {
	case want.Allowed && len(want.Warnings) > 0:
		verdict = decision.Warn
	case want.Allowed:
		verdict = decision.Allow
	}
	message, code, patchType := "", 0, ""
	if want.Result != nil {
		message, code = want.Result.Message, int(want.Result.Code)
		if message == "" && verdict == decision.Deny {
			message = string(want.Result.Reason)
		}
	}
	if want.PatchType != nil {
		patchType = string(*want.PatchType)
	}
	switch {
	case got.Decision != verdict:
		return fmt.Errorf("got decision %s, want %s", got.Decision, verdict)
	case got.Message != message || got.Code != code:
		return fmt.Errorf("got message %q and code %d, want %q and %d", got.Message, got.Code, message, code)
	case !slices.Equal(got.Warnings, want.Warnings):
		return fmt.Errorf("got warnings %q, want %q", got.Warnings, want.Warnings)
	case !maps.Equal(got.AuditAnnotations, want.AuditAnnotations):
		return fmt.Errorf("got annotations %q, want %q", got.AuditAnnotations, want.AuditAnnotations)
	case got.PatchType != patchType || got.PatchBytes != len(want.Patch) || got.Patch != nil && string(got.Patch) != string(want.Patch):
		return fmt.Errorf("got a patch of type %q and %d bytes, %s, want %q and %d, %s", got.PatchType, got.PatchBytes, got.Patch, patchType, len(want.Patch), want.Patch)
	}
	return nil
}

// answers makes answers of members that the API server takes, and a few that it does not.
type answers struct{ *rand.Rand }

var (
	good = []string{
		`"allowed":true`, `"allowed":true`, `"\u0061llowed":true`, `"allowed":false`, `"allowed":null`, `"Allowed":false`,
		`"warnings":["a\u2028","<b>"]`, `"warnings":["", "x"]`, `"warnings":[]`, `"warnings":null`,
		`"status":{"message":"no\r\n\u001b[2J","code":403}`, `"status":{"reason":"Forbidden"}`, `"status":{"m\u0065ssage":"é` + "\xff\xfe" + `","metadata":{},"details":{"causes":[]}}`,
		`"status":null`, `"status":{"code":200,"message":null}`, `"auditAnnotations":{"a":"b","c/d":""}`, `"auditAnnotations":null`,
		`"patchType":"JSONPatch"`, `"patchType":null`, `"patch":"W10="`, `"patch":"W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL2EifV0="`, `"patch":null`, `"patch":"\u0057\/8\u003d"`, `"patch":"W1\n0="`,
		`"unknown":{"deep":[{},[],"}"]}`, `"":1e5`, `"uid":"` + uid + `"`, `"uid":"\u0037` + uid[1:] + `"`, `"uid":null`,
	}
	bad = []string{
		`"allowed":"true"`, `"allowed":1`, `"warnings":"a"`, `"warnings":[1]`, `"warnings":[["a"]]`, `"status":"no"`, `"status":{"code":"403"}`, `"status":{"code":403.5}`,
		`"status":{"code":2147483648}`, `"status":{"message":1}`, `"auditAnnotations":{"a":1}`, `"auditAnnotations":[]`, `"patchType":1`, `"patch":"a"`, `"patch":"ab=c"`,
		`"patch":"ab\tc"`, `"patch":{}`, `"uid":"u-2"`, `"uid":1`, `"unknown":nul`, `"unknown":[1,]`, "\"unknown\":\"\n\"", `"unknown":"\x"`, `"a" 1`,
	}
)

func (g answers) review() []byte {
	members := []string{`"uid":"` + uid + `"`}
	for range g.IntN(8) {
		members = append(members, good[g.IntN(len(good))])
	}
	if g.IntN(6) == 0 {
		members = append(members, bad[g.IntN(len(bad))])
	}
	g.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	split := g.IntN(len(members) + 1) // some have two responses
	head := []string{`"kind":"AdmissionReview"`, `"apiVersion":"admission.k8s.io/v1"`, `"response":{` + strings.Join(members[:split], ", ") + `}`, `"response" : {` + strings.Join(members[split:], ",\n") + `}`}
	switch g.IntN(20) {
	case 0:
		head = append(head, `"response":null`)
	case 1:
		head[0] = `"kind":"Status"`
	case 2:
		head[1] = `"apiVersion":"admission.k8s.io/v1beta2"`
	case 3:
		head = append(head, `"request":{"uid":"u","object":{"a":[]},"options":null}`, `"Response":null`)
	}
	g.Shuffle(len(head), func(i, j int) { head[i], head[j] = head[j], head[i] })
	text := []byte("{" + strings.Join(head, ",") + "}\n")
	if g.IntN(30) == 0 {
		text = text[:g.IntN(len(text)-1)]
	}
	return text
}
