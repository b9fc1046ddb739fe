package cluster

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/docket-export/docket/webhook/engine/policy"
	"github.com/docket-export/docket/webhook/engine/settings"
)

var (
	templateKind  = schema.GroupVersionKind{Group: policy.TemplatesGroup, Version: "v1", Kind: policy.TemplateKind}
	configKind    = settings.Config.WithVersion("v1alpha1")
	syncSetKind   = settings.SyncSet.WithVersion("v1alpha1")
	namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

	webhookConfigurations = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}
	definitions           = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	namespaces            = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	controllerRevisions   = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "controllerrevisions"}
)

// resources are those of the kinds that this package knows. All that are policies to Gatekeeper
// are watched, also those that are refused, so that none is silently without effect.
var resources = map[schema.GroupVersionKind]string{
	templateKind:  "constrainttemplates",
	configKind:    "configs",
	syncSetKind:   "syncsets",
	namespaceKind: namespaces.Resource,
	{Group: policy.ExpansionGroup, Version: "v1beta1", Kind: "ExpansionTemplate"}: "expansiontemplate",
	{Group: policy.MutationsGroup, Version: "v1", Kind: "Assign"}:                 "assign",
	{Group: policy.MutationsGroup, Version: "v1", Kind: "AssignMetadata"}:         "assignmetadata",
	{Group: policy.MutationsGroup, Version: "v1", Kind: "ModifySet"}:              "modifyset",
	{Group: policy.MutationsGroup, Version: "v1alpha1", Kind: "AssignImage"}:      "assignimage",
	{Group: policy.ExternalDataGroup, Version: "v1beta1", Kind: "Provider"}:       "providers",
}

// settingsKinds are watched beside the kinds of data, policyKinds beside those of constraints.
var (
	settingsKinds = []schema.GroupVersionKind{configKind, syncSetKind}
	policyKinds   = slices.DeleteFunc(slices.Collect(maps.Keys(resources)), func(gvk schema.GroupVersionKind) bool {
		return gvk == namespaceKind || slices.Contains(settingsKinds, gvk)
	})
)
