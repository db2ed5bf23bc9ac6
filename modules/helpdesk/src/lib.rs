//! helpdesk
