package decision_test

import (
	"fmt"
	"log"

	"github.com/docket-export/docket/decision"
)

func ExampleFromReview() {
	request := []byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"705ab4f5",
		"kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},
		"namespace":"shop","name":"cart","operation":"CREATE","userInfo":{"username":"alice"},"object":{"kind":"Pod"}}}`)
	response := []byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"705ab4f5",
		"allowed":false,"status":{"code":403,"message":"you must provide labels: {\"team\"}"}}}`)
	r, err := decision.FromReview(request, response)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Decision, r.RequestUID, r.ResourceNamespace, r.ResourceName, r.Message)
	// Output: deny 705ab4f5 shop cart you must provide labels: {"team"}
}
