//! Limits of one container by the modes of its VPA object.
//!
//! A mode that the namespace does not allow gives way: without a limit, a `LimitRange` would refuse
//! the container or add its default, which may be below the request; and with one for pods as a
//! whole, only the requests are divided among the containers.

use model::{
    ControlledValues, LimitMode, LimitModes, Limits, NamespaceLimits, Quantity, ResourceList,
    ResourceName, shown_name,
};

use super::proportion::{Rounding, proportional_limit, proportional_limits, scale};
use super::{ContainerSize, PodContainer};

const RESOURCES: [ResourceName; 2] = [ResourceName::Cpu, ResourceName::Memory];

/// The mode in effect, and the reason if it is not the configured one. `RequestsOnly` leaves limits
/// as they are, so their mode has no effect.
pub(super) fn effective_mode<'a>(
    container: &PodContainer<'a>,
    resource: &ResourceName,
    namespace: &NamespaceLimits,
) -> (&'a LimitMode, Option<&'static str>) {
    if container.allowed.values == ControlledValues::RequestsOnly {
        return (&LimitMode::Proportional, None);
    }
    let has = |limits: &Option<Limits>, list: fn(&Limits) -> &Option<ResourceList>| {
        limits.as_ref().is_some_and(|limits| {
            let amount = list(limits).as_ref().and_then(|list| list.get(resource));
            amount.is_some_and(|amount| !amount.is_zero())
        })
    };
    let pod_max = has(&namespace.pods, |limits| &limits.max);
    let needs_limit = pod_max
        || has(&namespace.containers, |limits| &limits.max)
        || has(&namespace.containers, |limits| &limits.default);
    match container.limit_modes.of(resource) {
        LimitMode::None if needs_limit => (
            &LimitMode::Proportional,
            Some("limit kept in proportion since a LimitRange requires one"),
        ),
        LimitMode::RequestPlusPercent(_) | LimitMode::RequestPlusAmount(_) if pod_max => (
            &LimitMode::Equal,
            Some("limit equal to the request since a LimitRange limits the pod"),
        ),
        mode => (mode, None),
    }
}

/// The limit for a recommended request; `None` for no limit, or if there is no request. `max` is the
/// namespace's maximum.
pub fn limit_for(
    mode: &LimitMode,
    resource: &ResourceName,
    request: Option<&Quantity>,
    max: Option<&Quantity>,
) -> Option<Quantity> {
    let request = request.filter(|request| !request.is_zero() && !request.is_negative())?;
    let above = match mode {
        LimitMode::Proportional | LimitMode::None => return None,
        LimitMode::Equal => return Some(request.clone()),
        LimitMode::RequestPlusPercent(percent) => {
            let percentage = |percent: u32| Quantity::from_bytes(i64::from(percent));
            let (numerator, denominator) = (percentage(percent + 100), percentage(100));
            scale(resource, request, &numerator, &denominator, Rounding::Up)?
        }
        LimitMode::RequestPlusAmount(amount) => request + amount,
    };
    let max = max.filter(|max| !max.is_zero() && **max < above);
    Some(max.unwrap_or(&above).max(request).clone())
}

/// Adds the limits of a container to its size, which has the new requests.
pub(super) fn set_limits(
    size: &mut ContainerSize,
    container: &PodContainer<'_>,
    namespace: &NamespaceLimits,
) {
    let of_containers = namespace.containers.as_ref();
    let default = of_containers.and_then(|limits| limits.default.as_ref());
    let requests = &size.requests;
    if container.limit_modes.is_proportional() {
        let found = proportional_limits(container.limits, container.requests, requests, default);
        size.limits = found.limits;
        size.notes.extend(found.notes);
        return;
    }
    let max = of_containers.and_then(|limits| limits.max.as_ref());
    for resource in RESOURCES {
        let (mode, given_way) = effective_mode(container, &resource, namespace);
        let of = |list: Option<&ResourceList>| list.and_then(|list| list.get(&resource)).cloned();
        let request = requests.get(&resource);
        let has_request = request.is_some_and(|request| !request.is_zero());
        let mut note = |text: &str| size.notes.push(format!("{resource}: {text}"));
        if let Some(text) = given_way.filter(|_| has_request) {
            note(text);
        }
        let limit = match mode {
            LimitMode::Proportional => {
                let (limit, text) = proportional_limit(
                    &resource,
                    container.limits.get(&resource),
                    container.requests.get(&resource),
                    request,
                    of(default).as_ref(),
                );
                if let Some(text) = text.filter(|_| limit.is_some()) {
                    note(text);
                }
                limit
            }
            LimitMode::None => {
                if has_request && container.limits.get(&resource).is_some() {
                    size.removed_limits.push(resource.clone());
                }
                None
            }
            mode => limit_for(mode, &resource, request, of(max).as_ref()),
        };
        if let Some(limit) = limit {
            size.limits.insert(resource, limit);
        }
    }
}

/// Text of the pod annotation with the limits that follow from modes other than proportional, such as
/// `app: cpu=300m, memory=none`; `None` without any. At most 50 containers are listed.
pub fn limits_text<'a>(
    modes: &LimitModes,
    containers: impl IntoIterator<Item = (&'a str, &'a ContainerSize)>,
) -> Option<String> {
    if modes.is_proportional() {
        return None;
    }
    let text = |size: &ContainerSize| {
        let chosen = RESOURCES
            .into_iter()
            .filter(|resource| *modes.of(resource) != LimitMode::Proportional);
        let items = chosen.filter_map(|resource| {
            if size.removed_limits.contains(&resource) {
                return Some(format!("{resource}=none"));
            }
            let limit = size.limits.get(&resource)?;
            Some(format!("{resource}={limit}"))
        });
        let items: Vec<_> = items.collect();
        (!items.is_empty()).then(|| items.join(", "))
    };
    let listed = containers
        .into_iter()
        .filter_map(|(name, size)| Some(format!("{}: {}", shown_name(name), text(size)?)));
    let listed: Vec<_> = listed.take(MAX_LISTED).collect();
    (!listed.is_empty()).then(|| listed.join("; "))
}

/// Maximum number of containers in [`limits_text`].
const MAX_LISTED: usize = 50;
