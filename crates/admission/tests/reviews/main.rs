//! From reviews to answers, as the API server asks and as it would never ask.

mod dispatch;
mod hostile;
mod odd_pods;
mod selection;
mod stage;
mod taken_back;
mod validation;
