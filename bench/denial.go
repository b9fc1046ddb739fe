package main

import (
	"encoding/json"
	"time"

	"github.com/docket-export/docket/decision"
)

// denial is a denied request as an engine logs it, a line of 1 KB.
func denial() *decision.Record {
	dryRun := false
	return &decision.Record{
		ID:                 "7f3c1d9a-0b42-4c55-9e1b-5d0e2a4b6c81",
		Details:            json.RawMessage(`{"missing_labels":["owner","team"],"allowed":["registry.example.test/"]}`),
		EventType:          decision.ViolationAdmission,
		Group:              "constraints.gatekeeper.sh",
		Version:            "v1beta1",
		Kind:               "K8sRequiredLabels",
		Name:               "shop-must-have-owner",
		Message:            `you must provide labels: {"owner", "team"}`,
		EnforcementAction:  "deny",
		ResourceAPIVersion: "v1",
		ResourceKind:       "Pod",
		ResourceNamespace:  "shop",
		ResourceName:       "shop-5d9c7b6f4-x2x7q",
		ResourceLabels:     map[string]string{"app": "shop", "tier": "backend", "pod-template-hash": "5d9c7b6f4"},
		Timestamp:          time.Date(2026, 11, 21, 8, 7, 16, 213267926, time.UTC),
		Operation:          "CREATE",
		RequestResource:    "pods",
		RequestUsername:    "system:serviceaccount:kube-system:replicaset-controller",
		RequestUserGroups:  []string{"system:serviceaccounts", "system:authenticated"},
		DryRun:             &dryRun,
		Decision:           decision.Deny,
		Process:            decision.Admission,
		Cluster:            "shop-eu-1",
		Pod:                "gatekeeper-controller-manager-6c9d8f7b5-q4w8z",
		RequestUID:         "7f3c1d9a-0b42-4c55-9e1b-5d0e2a4b6c81",
		Template:           "k8srequiredlabels",
		Sequence:           4711,
	}
}
