"""Builds trees and terms from their parts, with the checks that need no event."""
