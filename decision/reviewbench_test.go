package decision_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/docket-export/docket/decision"
)

// reviewOf is a request whose object has some size bytes, as kubectl sends a Deployment: with
// many short texts, and managed fields.
func reviewOf(size int) []byte {
	var object bytes.Buffer
	object.WriteString(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"cart","namespace":"shop","labels":{"app":"cart"},"managedFields":[`)
	for i := 0; object.Len() < size; i++ {
		if i > 0 {
			object.WriteByte(',')
		}
		fmt.Fprintf(&object, `{"manager":"kubectl-%d","operation":"Update","fieldsV1":{"f:spec":{"f:containers":{"k:{\"name\":\"c%d\"}":{".":{},"f:image":{},"f:env":{".":{},"k:{\"name\":\"LOG_LEVEL\"}":{".":{},"f:name":{},"f:value":{}}},"f:resources":{"f:limits":{".":{},"f:cpu":{},"f:memory":{}}}}}}},"note":"a text of some length, as in an annotation or a description of what this is"}`, i, i)
	}
	object.WriteString(`]},"spec":{"replicas":3}}`)
	return []byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"705ab4f5-6393-11e8-b7cc-42010a800001","kind":{"group":"apps","version":"v1","kind":"Deployment"},"resource":{"group":"apps","version":"v1","resource":"deployments"},` +
		`"requestKind":{"group":"apps","version":"v1","kind":"Deployment"},"requestResource":{"group":"apps","version":"v1","resource":"deployments"},"name":"cart","namespace":"shop","operation":"CREATE","userInfo":{"username":"system:serviceaccount:argocd:application-controller","uid":"3f1","groups":["system:serviceaccounts","system:serviceaccounts:argocd","system:authenticated"],"extra":{"authentication.kubernetes.io/credential-id":["JTI=1"]}},` +
		`"object":` + object.String() + `,"oldObject":null,"dryRun":false,"options":{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1","fieldManager":"kubectl-client-side-apply","fieldValidation":"Strict"}}}`)
}

func BenchmarkReview(b *testing.B) {
	response := readSample(b, samplesDir+"/gatekeeper/admission/deny-response.json")
	response = []byte(strings.ReplaceAll(string(response), "42010a800002", "42010a800001"))
	for _, size := range []int{1 << 10, 10 << 10, 1 << 20} {
		request := reviewOf(size)
		for name, include := range map[string][]decision.Content{"plain": nil, "object": {decision.ContentObject}} {
			b.Run(fmt.Sprintf("%s/%dKB", name, len(request)>>10), func(b *testing.B) {
				b.SetBytes(int64(len(request)))
				b.ReportAllocs()
				asked, answered := decision.NewReviewReader(include...), decision.NewReviewReader()
				for b.Loop() {
					asked.Reset()
					answered.Reset()
					for rest := request; len(rest) > 0; {
						n := min(len(rest), 4<<10) // as net/http reads
						_, _ = asked.Write(rest[:n])
						rest = rest[n:]
					}
					_, _ = answered.Write(response)
					if r, err := decision.ReviewRecord(asked, answered); err != nil || r.Decision != decision.Deny {
						b.Fatalf("got %+v, %v, want a deny", r, err)
					}
				}
			})
		}
	}
}
