package engine

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// request is a request of testdata/requests.yaml and what Gatekeeper says to it.
type request struct {
	Case      string
	Operation admissionv1.Operation // CREATE
	Namespace string                // that of the object
	User      string                // ann
	Groups    []string
	DryRun    bool `yaml:"dryRun"`
	Object    map[string]any
	Old       map[string]any

	Code       int32    // 200 allowed, 299 with warnings, 403 denied, else an error
	Deny, Warn []string // constraints, in the order of their lines
	Records    *int     // violations, where they are not those of Deny and Warn
}

// records is how many violations the request is.
func (r *request) records() int {
	if r.Records != nil {
		return *r.Records
	}
	return len(r.Deny) + len(r.Warn)
}

func requests(t testing.TB) []request {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "requests.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	var all []request
	if err := decoder.Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

// resources are those whose name is not the kind in lower case and an s.
var resources = map[string]string{"Ingress": "ingresses", "K8sRequiredLabels": "k8srequiredlabels", "NeededLabels": "neededlabels"}

// review is the request as the API server asks it.
func (r *request) review(t testing.TB, uid string) *admissionv1.AdmissionReview {
	t.Helper()
	subject := r.Object
	if subject == nil {
		subject = r.Old
	}
	text := func(fields ...string) string {
		var at any = subject
		for _, field := range fields {
			at = at.(map[string]any)[field]
		}
		s, _ := at.(string)
		return s
	}
	group, version, ok := strings.Cut(text("apiVersion"), "/")
	if !ok {
		group, version = "", group
	}
	kind := text("kind")
	resource := resources[kind]
	if resource == "" {
		resource = strings.ToLower(kind) + "s"
	}
	q := &admissionv1.AdmissionRequest{
		UID: types.UID(uid), Kind: metav1.GroupVersionKind{Group: group, Version: version, Kind: kind},
		Resource: metav1.GroupVersionResource{Group: group, Version: version, Resource: resource},
		Name:     text("metadata", "name"), Namespace: text("metadata", "namespace"), Operation: r.Operation,
		UserInfo: authenticationv1.UserInfo{Username: r.User, Groups: append([]string{"system:authenticated"}, r.Groups...)},
		DryRun:   &r.DryRun, Object: raw(t, r.Object), OldObject: raw(t, r.Old),
	}
	q.RequestKind, q.RequestResource = &q.Kind, &q.Resource
	if r.Namespace != "" {
		q.Namespace = r.Namespace
	}
	if q.Operation == "" {
		q.Operation = admissionv1.Create
	}
	if q.UserInfo.Username == "" {
		q.UserInfo.Username = "ann"
	}
	return &admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: q}
}

func raw(t testing.TB, object map[string]any) (e runtime.RawExtension) {
	t.Helper()
	if object == nil {
		return e
	}
	var err error
	if e.Raw, err = json.Marshal(object); err != nil {
		t.Fatal(err)
	}
	return e
}

// answer is what a client of the API server gets to know of a verdict.
type answer struct {
	Allowed  bool
	Code     int32
	Reason   metav1.StatusReason
	Message  string
	Warnings []string
}

func (a answer) String() string {
	return fmt.Sprintf("allowed %t, code %d, reason %q, message %q, warnings %q", a.Allowed, a.Code, a.Reason, a.Message, a.Warnings)
}

// constraints returns the names in brackets with which lines begin.
func constraints(lines ...string) (names []string) {
	for _, line := range lines {
		if rest, ok := strings.CutPrefix(line, "["); ok {
			if name, _, ok := strings.Cut(rest, "] "); ok {
				names = append(names, name)
			}
		}
	}
	return names
}

// webhook is one that is asked as the API server does.
type webhook struct {
	url    string
	client *http.Client
}

func newWebhook(t testing.TB, address, name string, ca *x509.CertPool) *webhook {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca, ServerName: name}, MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &webhook{"https://" + address + "/v1/admit?timeout=10s", &http.Client{Transport: transport}}
}

// ask returns the answer to a review and all of the response.
func (w *webhook) ask(review *admissionv1.AdmissionReview) (answer, *admissionv1.AdmissionResponse, error) {
	body, err := json.Marshal(review)
	if err != nil {
		return answer{}, nil, err
	}
	resp, err := w.client.Post(w.url, "application/json", bytes.NewReader(body))
	if err != nil {
		return answer{}, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, nil, err
	}
	var got admissionv1.AdmissionReview
	if err := json.Unmarshal(text, &got); err != nil || resp.StatusCode != http.StatusOK || got.Response == nil {
		return answer{}, nil, fmt.Errorf("%s: %.300q: %w", resp.Status, text, err)
	}
	r := got.Response
	if r.UID != review.Request.UID {
		return answer{}, nil, fmt.Errorf("the answer is for %q and not for %q", r.UID, review.Request.UID)
	}
	a := answer{Allowed: r.Allowed, Warnings: r.Warnings}
	if r.Result != nil {
		a.Code, a.Reason, a.Message = r.Result.Code, r.Result.Reason, r.Result.Message
	}
	return a, r, nil
}
