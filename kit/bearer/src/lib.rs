//! bearer
