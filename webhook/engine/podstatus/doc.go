// Package podstatus tells which revision of which policy each pod enforces.
//
// Each pod writes one object, a PolicyPodStatus with the pod's name, and owned by the pod: who deletes the pod deletes the
// object. It has a state for each policy that the pod knows. The Aggregator, one in the cluster, joins them with the pods
// that are there, and writes the outcome into each template and constraint:
//
//	PolicyPodStatus of pod 1 \                      / status.byPod   an entry for each pod
//	PolicyPodStatus of pod 2  > template, constraint
//	PolicyPodStatus of pod 3 /                      \ status.docket  phase, reason, pods, enforcing
//
// Both wait until a burst of changes is over and write once. They write nothing that says what is there already.
package podstatus

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/docket-export/docket/webhook/engine/policy"
)

// Label marks the pods that hold policies, whatever its value: each of them has an entry in status.byPod.
const Label = "status.docket.dev/by-pod"

var (
	// Resource is that of PolicyPodStatus.
	Resource = schema.GroupVersionResource{Group: "status.docket.dev", Version: "v1alpha1", Resource: "policypodstatuses"}

	pods      = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	templates = schema.GroupVersionResource{Group: policy.TemplatesGroup, Version: "v1", Resource: "constrainttemplates"}
)

// PolicyPodStatus is what one pod knows and enforces. It is JSON of a custom resource, without generated code: the
// dynamic client carries it.
type PolicyPodStatus struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Status            Status `json:"status"`
}

// Status is of all policies of a pod.
type Status struct {
	Operations []string `json:"operations"`
	Policies   []Policy `json:"policies"`
}

// Policy is the state of one policy in one pod.
type Policy struct {
	Kind string    `json:"kind"`
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// ObservedGeneration is the newest that the pod has seen. EnforcedGeneration is the one that decides about requests;
	// 0: none does.
	ObservedGeneration int64        `json:"observedGeneration"`
	EnforcedGeneration int64        `json:"enforcedGeneration"`
	Phase              policy.Phase `json:"phase"`
	Reason             string       `json:"reason,omitempty"`
	Since              string       `json:"since,omitempty"` // RFC 3339: when one of the above changed last
	Errors             []Error      `json:"errors,omitempty"`
}

// Error has the form that Gatekeeper's template has for it.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}
