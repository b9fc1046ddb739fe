package main

import (
	"bytes"
	"fmt"
	"strings"
)

const (
	// reviewBytes is the size of a usual review: an object of 3 KB stands in it, with its
	// managed fields, or twice after an update.
	reviewBytes = 10 << 10
	// largeReviewBytes is as large as objects get that etcd takes.
	largeReviewBytes = 1 << 20
)

// reviewUID stands in every review, as docket compares no UIDs.
const reviewUID = "705ab4f5-6393-11e8-b7cc-42010a800002"

// deniedName begins the name of an object that the engine denies.
const deniedName = "denied"

// review is what the API server asks of a webhook about a Deployment, in so many bytes,
// and what the engine answers.
type review struct{ request, answer []byte }

func newReview(size int, denied bool) review {
	name := "cart"
	if denied {
		name = deniedName
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":%[1]q,"kind":{"group":"apps","version":"v1","kind":"Deployment"},`+
		`"resource":{"group":"apps","version":"v1","resource":"deployments"},"requestKind":{"group":"apps","version":"v1","kind":"Deployment"},`+
		`"requestResource":{"group":"apps","version":"v1","resource":"deployments"},"name":%[2]q,"namespace":"shop","operation":"CREATE",`+
		`"userInfo":{"username":"system:serviceaccount:argocd:argocd-application-controller","groups":["system:serviceaccounts","system:authenticated"]},`+
		`"object":{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%[2]q,"namespace":"shop","labels":{"app":"cart","tier":"backend"},"managedFields":[`,
		reviewUID, name)
	const end = `]},"spec":{"replicas":3,"template":{"spec":{"containers":[]}}}},"oldObject":null,"dryRun":false,` +
		`"options":{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1","fieldManager":"argocd-controller"}}}`
	for manager := 0; ; manager++ {
		fields := fmt.Sprintf(`{"manager":"controller-%d","operation":"Update","fieldsV1":{"f:spec":{"f:containers":{"k:{\"name\":\"cart\"}":{".":{},"f:image":{},"f:env":{"k:{\"name\":\"LOG_LEVEL\"}":{".":{},"f:value":{}}}}}}}},`, manager)
		if text.Len()+len(fields)+len(end)+len(`{"manager":""}`) > size {
			break
		}
		text.WriteString(fields)
	}
	filler := strings.Repeat("x", size-text.Len()-len(end)-len(`{"manager":""}`))
	fmt.Fprintf(&text, `{"manager":%q}`, filler)
	text.WriteString(end)
	return review{text.Bytes(), verdict(reviewUID, denied)}
}

// mix is a sequence of reviews of one size, of which one in so many is denied, beginning
// with the first.
type mix struct {
	allowed, denied review
	oneIn           int
}

func newMix(size, oneIn int) mix { return mix{newReview(size, false), newReview(size, true), oneIn} }

func (m mix) at(i int) review {
	if i%m.oneIn == 0 {
		return m.denied
	}
	return m.allowed
}

// denials is how many of the first n are denied.
func (m mix) denials(n int) int { return (n + m.oneIn - 1) / m.oneIn }

// verdict is the answer of the engine.
func verdict(uid string, denied bool) []byte {
	status := ""
	if denied {
		status = `,"status":{"metadata":{},"message":"[shop-must-have-owner] you must provide labels: {\"owner\", \"team\"}","reason":"Forbidden","code":403}`
	}
	return fmt.Appendf(nil, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":%q,"allowed":%t%s}}`, uid, !denied, status)
}
