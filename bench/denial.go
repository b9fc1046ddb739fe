package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

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

// logSlog logs the fields of denial; the time is the logger's. A map is a group,
// which slog takes without reflection.
func logSlog(logger *slog.Logger, r *decision.Record) {
	logger.LogAttrs(context.Background(), slog.LevelInfo, r.Message,
		slog.String("id", r.ID),
		slog.Any("details", r.Details),
		slog.String("eventType", r.EventType),
		slog.String("group", r.Group),
		slog.String("version", r.Version),
		slog.String("kind", r.Kind),
		slog.String("name", r.Name),
		slog.String("enforcementAction", r.EnforcementAction),
		slog.String("resourceAPIVersion", r.ResourceAPIVersion),
		slog.String("resourceKind", r.ResourceKind),
		slog.String("resourceNamespace", r.ResourceNamespace),
		slog.String("resourceName", r.ResourceName),
		slogMap("resourceLabels", r.ResourceLabels),
		slog.String("operation", r.Operation),
		slog.String("requestResource", r.RequestResource),
		slog.String("requestUsername", r.RequestUsername),
		slog.Any("requestUserGroups", r.RequestUserGroups),
		slog.Bool("dryRun", *r.DryRun),
		slog.Int("schemaVersion", decision.SchemaVersion),
		slog.String("decision", string(r.Decision)),
		slog.String("process", string(r.Process)),
		slog.String("cluster", r.Cluster),
		slog.String("pod", r.Pod),
		slog.String("requestUID", r.RequestUID),
		slog.String("template", r.Template),
		slog.Uint64("sequence", r.Sequence),
	)
}

func slogMap(key string, m map[string]string) slog.Attr {
	attrs := make([]slog.Attr, 0, len(m))
	for k, v := range m {
		attrs = append(attrs, slog.String(k, v))
	}
	return slog.GroupAttrs(key, attrs...)
}

// logZap is logSlog for zap. Only the details need reflection.
func logZap(logger *zap.Logger, r *decision.Record) {
	logger.Info(r.Message,
		zap.String("id", r.ID),
		zap.Reflect("details", r.Details),
		zap.String("eventType", r.EventType),
		zap.String("group", r.Group),
		zap.String("version", r.Version),
		zap.String("kind", r.Kind),
		zap.String("name", r.Name),
		zap.String("enforcementAction", r.EnforcementAction),
		zap.String("resourceAPIVersion", r.ResourceAPIVersion),
		zap.String("resourceKind", r.ResourceKind),
		zap.String("resourceNamespace", r.ResourceNamespace),
		zap.String("resourceName", r.ResourceName),
		zap.Object("resourceLabels", zapMap(r.ResourceLabels)),
		zap.String("operation", r.Operation),
		zap.String("requestResource", r.RequestResource),
		zap.String("requestUsername", r.RequestUsername),
		zap.Strings("requestUserGroups", r.RequestUserGroups),
		zap.Bool("dryRun", *r.DryRun),
		zap.Int("schemaVersion", decision.SchemaVersion),
		zap.String("decision", string(r.Decision)),
		zap.String("process", string(r.Process)),
		zap.String("cluster", r.Cluster),
		zap.String("pod", r.Pod),
		zap.String("requestUID", r.RequestUID),
		zap.String("template", r.Template),
		zap.Uint64("sequence", r.Sequence),
	)
}

type zapMap map[string]string

// MarshalLogObject writes the members in any order.
func (m zapMap) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	for k, v := range m {
		enc.AddString(k, v)
	}
	return nil
}

// zapKeys are those of a Record, for what zap writes itself.
var zapKeys = zapcore.EncoderConfig{
	MessageKey: "message",
	TimeKey:    "timestamp",
	EncodeTime: zapcore.RFC3339NanoTimeEncoder,
}
