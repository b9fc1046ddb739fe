// Package webhook records the decisions of an admission webhook as they are made.
// It is a module of its own, which requires docket's client and decision and no
// library, so an engine that imports it gets no other requirement.
//
//	webhook/serving  rules by which a webhook starts and stops without a failed request
package webhook
